"""The audit for programs that use kafka-python: wrap the producer or consumer, and use it as before.

    producer = AuditedProducer(KafkaProducer(bootstrap_servers=brokers), audit="checkout", brokers=brokers)
    consumer = AuditedConsumer(KafkaConsumer("orders", bootstrap_servers=brokers), audit="billing", brokers=brokers)

A message is sent when its future says so. `producer.close()`, or `with`, publishes the last counts.
"""

from collections.abc import Iterator
from typing import Any, Self

from millstream.audit.report import Kind
from millstream.audited.settings import Audit
from millstream.audited.tier import Handled
from millstream.audited.wrapper import AuditedClient, InHand


class AuditedProducer(AuditedClient):
    """A `KafkaProducer` that counts what was sent."""

    def __init__(self, producer: Any, *, audit: Audit, brokers: str) -> None:
        super().__init__(producer, Kind.PRODUCER, audit=audit, brokers=brokers)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def send(self, topic: str, *args: Any, **kwargs: Any) -> Any:
        """Send a message, with the arguments of the client's own `send`; returns its future."""
        token = self._tier.sending(topic)
        try:
            future = self._client.send(topic, *args, **kwargs)
        except BaseException:
            self._tier.failed(token)
            raise
        future.add_callback(self._sent, token)
        future.add_errback(self._failed, token)
        return future

    def close(self, *args: Any, **kwargs: Any) -> None:
        """Wait until everything has been sent, close the producer, and publish the last counts."""
        self._client.close(*args, **kwargs)
        self._tier.close()

    def _sent(self, token: int, metadata: Any) -> None:
        sizes = (metadata.serialized_key_size, metadata.serialized_value_size)
        size = sum(size for size in sizes if size > 0)
        self._tier.sent(token, metadata.topic, metadata.timestamp, size, partition=metadata.partition)

    def _failed(self, token: int, _error: BaseException) -> None:
        self._tier.failed(token)


class AuditedConsumer(AuditedClient):
    """A `KafkaConsumer` that counts what was handled."""

    def __init__(self, consumer: Any, *, audit: Audit, brokers: str) -> None:
        super().__init__(consumer, Kind.CONSUMER, audit=audit, brokers=brokers)
        self._in_hand = InHand(self._tier, handled)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __iter__(self) -> Iterator[Any]:
        return self

    def __next__(self) -> Any:
        self._in_hand.settle()
        record = next(self._client)
        self._in_hand.give(record.topic, [record])
        return record

    def poll(self, *args: Any, **kwargs: Any) -> dict[Any, list[Any]]:
        """The next messages; those before them have been handled."""
        self._in_hand.settle()
        records: dict[Any, list[Any]] = self._client.poll(*args, **kwargs)
        for place, some in records.items():
            self._in_hand.give(place.topic, some)
        return records

    def commit(self, *args: Any, **kwargs: Any) -> Any:
        """Commit offsets; what was handed out has been handled, and is published first."""
        self._in_hand.publish()
        return self._client.commit(*args, **kwargs)

    def close(self, *args: Any, **kwargs: Any) -> None:
        """Publish the last counts and close the consumer; what was handed out has been handled."""
        self._in_hand.settle()
        self._tier.close()
        self._client.close(*args, **kwargs)


def handled(record: Any) -> Handled:
    """A record as it is counted."""
    size = max(record.serialized_key_size, 0) + max(record.serialized_value_size, 0)
    return Handled(record.partition, record.offset, record.timestamp, size)
