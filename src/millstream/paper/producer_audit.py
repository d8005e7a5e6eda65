"""The tier of a producer: what it sent, minus what failed, counted when it has been answered (`audited.sent_counts`).

A list of messages costs two looks at the clock and one addition per call, and each message its length. What has a time or headers of its
own, or comes when a bucket ends or the queue is full, is stamped, sent and counted one by one.
"""

from collections.abc import Iterable, Mapping
from time import monotonic, time
from typing import Any, Final

from millstream.audited.audit_topic import open_audit_topic
from millstream.audited.reporter import Reporter
from millstream.audited.sent_counts import SentCounts
from millstream.audited.settings import Audit, audit_settings
from millstream.paper.delivery_progress import DeliveryProgress
from millstream.paper.message import Message, Payload
from millstream.paper.settings import Setting

_SLACK_S: Final = 5.0
_DEFAULT_TIMEOUT_MS: Final = 60_000


class ProducerAudit:
    """Counts what a producer sends, and publishes that."""

    def __init__(self, audit: Audit, brokers: str, options: Mapping[str, Setting]) -> None:
        settings = audit_settings(audit)
        self._progress = DeliveryProgress()
        self._client: Any = None
        self._patience_s = _patience_s(options)
        self._counts = SentCounts(settings, answered_until=self._answered_until, announce=self._announce)
        self._reporter = Reporter(settings, self._counts, open_topic=lambda: open_audit_topic(brokers, settings, options))
        self.begin, self.add_unstamped = self._counts.begin, self._counts.add_unstamped
        self.note_statistics = self._progress.feed

    def follow(self, client: Any) -> None:
        """The producer of librdkafka whose messages are counted."""
        self._client = client

    def add(self, topic: str, timestamp_ms: int, message: Message) -> None:
        """A message of this time was handed over."""
        self._counts.add(topic, timestamp_ms, 1, size_of([message]))

    def note_failure(self, message: Any, timestamp_ms: int | None) -> None:
        """A message of librdkafka's was not written; it does not say its time, only how long ago it was sent."""
        size = len(message) + len(message.key() or b"")
        if timestamp_ms is not None:
            self._counts.add_failure(message.topic(), timestamp_ms, size)
        else:
            self._counts.add_unstamped_failure(message.topic(), time() - message.latency(), size)

    def close(self) -> None:
        """Publish what is left, as the last report unless something is still being sent."""
        self._reporter.close()

    def _announce(self) -> None:
        self._reporter.announce()

    def _answered_until(self) -> float:
        now = monotonic()
        self._client.poll(0)
        if not len(self._client):
            return now
        return max(self._progress.answered_until, now - self._patience_s)


def size_of(messages: "Iterable[Message | Payload]") -> int:
    """Bytes of keys and values."""
    return sum(
        len(message.payload or b"") + len(message.key or b"") if isinstance(message, Message) else len(message or b"")
        for message in messages
    )


def _patience_s(options: Mapping[str, Setting]) -> float:
    """After so long a message has been answered, or given up, whatever happened."""
    names = ("message.timeout.ms", "delivery.timeout.ms")
    message_timeout_ms = next((float(options[name]) for name in names if name in options), _DEFAULT_TIMEOUT_MS)
    if not message_timeout_ms:
        return float("inf")
    return (message_timeout_ms + float(options.get("socket.timeout.ms", _DEFAULT_TIMEOUT_MS))) / 1000 + _SLACK_S
