"""The applications of both datacentres: shops and tills that send Avro through a registry, and consumers; all take part in the audit.

The times of the messages lie in two buckets that are over, so that the audit has its last word on them at once.
"""

import json
import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack
from datetime import UTC, datetime, timedelta
from typing import Any, Protocol

import confluent_kafka

from millstream import Consumer, Message, Producer
from millstream.audited.confluent_kafka import AuditedConsumer, AuditedProducer
from millstream.audited.settings import AuditSettings
from millstream.registry.avro_deserializer import AvroDeserializer
from millstream.registry.avro_serializer import AvroSerializer
from millstream.registry.client import RegistryClient
from tests.paper.sites import Reader

ORDERS, PAYMENTS = "orders", "payments"
BUCKET = timedelta(minutes=10)
FIRST = datetime.now(UTC).replace(minute=0, second=0, microsecond=0) - timedelta(hours=2)
BUCKETS = [FIRST, FIRST + BUCKET]
TEN = 10
SCHEMA = json.dumps(
    {
        "type": "record",
        "name": "Order",
        "fields": [{"name": "number", "type": "long"}, {"name": "customer", "type": "string"}],
    }
)
QUIET = {"log_level": 0}
"""Connections break, again and again: that is what the faults are about."""
_PAUSE_S = 0.05
_AT_ONCE = 10


def bucket_of(number: int) -> datetime:
    """Two of three messages are of the first bucket."""
    return BUCKETS[number % 3 // 2]


def time_of(number: int) -> datetime:
    return bucket_of(number) + timedelta(milliseconds=number % 600_000)


class Orders:
    """Numbered messages in Avro, and back."""

    def __init__(self, registry: RegistryClient) -> None:
        self._serialize = AvroSerializer(registry, SCHEMA)
        self._deserialize = AvroDeserializer(registry)

    def encode(self, topic: str, number: int) -> bytes:
        encoded = self._serialize({"number": number, "customer": f"customer-{number % 50}"}, topic)
        assert encoded is not None
        return encoded

    def decode(self, message: bytes | None) -> int:
        return int(self._deserialize(message)["number"])


class Traffic:
    """Two producers that send for as long as they are let: ours to `orders`, one of confluent-kafka to `payments`."""

    def __init__(self, brokers: str, orders: Orders, *, registry: str) -> None:
        self.sent = 0
        self._orders = orders
        self._is_over = threading.Event()
        self._failure: BaseException | None = None
        with ExitStack() as stack:
            self._shop = stack.enter_context(Producer(brokers, audit="shop", options=QUIET))
            self._tills = stack.enter_context(open_tills(brokers, registry))
            self._stack = stack.pop_all()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def finish(self) -> None:
        """Send nothing more; all was acknowledged, and reported."""
        self._is_over.set()
        self._thread.join()
        self._stack.close()
        if self._failure is not None:
            raise self._failure

    def expected(self) -> Counter[datetime]:
        """How many messages of each bucket were sent to each of the topics."""
        return Counter(map(bucket_of, range(self.sent)))

    def _run(self) -> None:
        try:
            while not self._is_over.wait(_PAUSE_S):
                numbers = range(self.sent, self.sent + _AT_ONCE)
                messages = [Message(self._orders.encode(ORDERS, one), f"{one}", timestamp=time_of(one)) for one in numbers]
                self._shop.send(ORDERS, messages)
                for one in numbers:
                    self._tills.produce(PAYMENTS, self._orders.encode(PAYMENTS, one), f"{one}", timestamp=milliseconds(time_of(one)))
                self._tills.poll(0)
                self.sent += _AT_ONCE
        except BaseException as error:  # noqa: BLE001 - raised again by `finish`
            self._failure = error


def open_tills(brokers: str, registry: str, **options: object) -> AuditedProducer:
    """A producer of confluent-kafka whose reports are Avro, too."""
    config = {"bootstrap.servers": brokers, "enable.idempotence": True, **QUIET, **options}
    return AuditedProducer(confluent_kafka.Producer(config), audit=AuditSettings("tills", registry=registry), brokers=brokers)


def send_tens(brokers: str, registry: str, orders: Orders, topic: str, partition: int, count: int) -> None:
    """Messages of the first bucket to one partition, ten in each batch."""
    with open_tills(brokers, registry, **{"batch.num.messages": TEN, "linger.ms": 10_000}) as tills:
        for number in range(count):
            tills.produce(topic, orders.encode(topic, number), partition=partition, timestamp=milliseconds(FIRST) + number)


def milliseconds(moment: datetime) -> int:
    return round(moment.timestamp() * 1000)


class Received(Protocol):
    """A consumer that notes what it handles."""

    def places(self) -> set[tuple[int, int]]:
        """Partition and offset of each message."""

    def payloads(self) -> Iterator[bytes | None]:
        """Of all messages, those that came again included."""

    def close(self) -> None:
        """Report what was handled, and end."""


class PaperConsumer:
    """One of ours, which finds everything through ZooKeeper."""

    def __init__(self, zookeeper: str, tier: str, topic: str) -> None:
        self.consumer = Consumer(zookeeper, f"{tier}-{topic}", audit=tier, options=QUIET)
        self._reader = Reader(self.consumer, topic)

    def places(self) -> set[tuple[int, int]]:
        return {(message.partition, message.offset) for message in list(self._reader.got)}

    def payloads(self) -> Iterator[bytes | None]:
        return (message.payload for message in list(self._reader.got))

    def close(self) -> None:
        self._reader.close()


class ConfluentConsumer:
    """One of confluent-kafka in our wrapper."""

    def __init__(self, brokers: str, tier: str, topic: str) -> None:
        config = {"bootstrap.servers": brokers, "group.id": f"{tier}-{topic}", "auto.offset.reset": "earliest", **QUIET}
        self._consumer = AuditedConsumer(confluent_kafka.Consumer(config), audit=tier, brokers=brokers)
        self._consumer.subscribe([topic])
        self._got: list[Any] = []
        self._is_over = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def places(self) -> set[tuple[int, int]]:
        return {(message.partition(), message.offset()) for message in list(self._got)}

    def payloads(self) -> Iterator[bytes | None]:
        return (message.value() for message in list(self._got))

    def close(self) -> None:
        self._is_over.set()
        self._thread.join()
        self._consumer.close()

    def _run(self) -> None:
        while not self._is_over.is_set():
            message = self._consumer.poll(0.2)
            if message is not None and message.error() is None:
                self._got.append(message)
