"""A small service at the live side, as in the paper's "online consumers": it looks for robots among the page views.

python -m demo.abuse_service --brokers HOST:PORT --coordination HOST:PORT --registry URL

It reads with the paper's consumer, which keeps its offsets in ZooKeeper, and leaves out what it has seen: messages that come again after a
failure, by offset, and events that were sent twice, by key. Every second it publishes how it is doing to a topic of its own, as any
application would its operational metrics; both that and its reading take part in the audit.
"""

import argparse
import json
import signal
import sys
import threading
import time
from collections.abc import Callable
from typing import Any, Final

from demo.abuse import ALERTS, METRICS, TIER, AbuseRule, Alert
from demo.events import PAGE_VIEWS
from millstream import AuditSettings, ConsumedMessage, Consumer, Deduplicator, Message, MessageStream, Producer
from millstream.registry.avro_deserializer import AvroDeserializer
from millstream.registry.client import RegistryClient

NAME: Final = "abuse-service"
METRICS_EVERY_S: Final = 1.0
AUDIT_EVERY_S: Final = 2.0
QUIET: Final = {"log_level": 0}
"""That a broker is gone for a moment is part of the demo."""


class AbuseService:
    """Reads page views, and publishes alerts and metrics."""

    def __init__(self, producer: Producer, decode: Callable[[bytes | None], Any]) -> None:
        self._producer = producer
        self._decode = decode
        self._rule = AbuseRule()
        self._by_offset = Deduplicator()
        self._by_key = Deduplicator(key=lambda message: message.key)
        self._messages = self._views = self._alerts = 0
        self._published = 0

    def read(self, stream: MessageStream) -> None:
        """Handle what comes, until the consumer is closed."""
        for message in stream:
            self.handle(message)

    def handle(self, message: ConsumedMessage) -> None:
        """One message."""
        if not self._by_offset.is_new(message):
            return
        self._messages += 1
        if not self._by_key.is_new(message):
            return
        self._views += 1
        view = self._decode(message.payload)
        alert = self._rule.add(view["user"], round(view["at"].timestamp() * 1000))
        if alert is not None:
            self._alerts += 1
            self._producer.send(ALERTS, _json_message(alert))

    def publish_metrics(self) -> None:
        """How it is doing."""
        handled = self._messages
        document = {
            "service": NAME,
            "at": int(time.time() * 1000),
            "messages": handled,
            "per_second": round((handled - self._published) / METRICS_EVERY_S),
            "views": self._views,
            "alerts": self._alerts,
        }
        self._published = handled
        self._producer.send(METRICS, Message(json.dumps(document), key=NAME))


def _json_message(alert: Alert) -> Message:
    return Message(json.dumps(alert._asdict()), key=alert.user)


def main() -> int:
    """Run until SIGTERM."""
    flags = _parse(sys.argv[1:])
    is_to_stop = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: is_to_stop.set())
    producer = Producer(flags.brokers, audit=AuditSettings(NAME, interval_s=AUDIT_EVERY_S), options=QUIET)
    with producer, RegistryClient(flags.registry) as registry:
        service = AbuseService(producer, AvroDeserializer(registry))
        with Consumer(flags.coordination, TIER, audit=AuditSettings(TIER, interval_s=AUDIT_EVERY_S), options=QUIET) as consumer:
            [stream] = consumer.create_message_streams(PAGE_VIEWS)
            reading = threading.Thread(target=service.read, args=(stream,))
            reading.start()
            sys.stdout.write(f"ready: {NAME}\n")
            sys.stdout.flush()
            while not is_to_stop.wait(METRICS_EVERY_S) and reading.is_alive():
                service.publish_metrics()
        reading.join()
        service.publish_metrics()
    return 0 if is_to_stop.is_set() else 1


def _parse(arguments: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m demo.abuse_service", description="Looks for robots among page views.")
    for name in ("--brokers", "--coordination", "--registry"):
        parser.add_argument(name, required=True)
    return parser.parse_args(arguments)


if __name__ == "__main__":
    sys.exit(main())
