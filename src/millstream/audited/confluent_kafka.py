"""The audit for programs that use confluent-kafka: wrap the producer or consumer, and use it as before.

    producer = AuditedProducer(confluent_kafka.Producer(config), audit="checkout", brokers="127.0.0.1:9092")
    consumer = AuditedConsumer(confluent_kafka.Consumer(config), audit="billing", brokers="127.0.0.1:9092", auto_commit_interval_s=5)

The serialising ones can be wrapped as well. A message is sent when its delivery report says so, which needs `poll` or `flush`, as always
with this client; messages of a transaction count when it is committed. `producer.close()`, or `with`, publishes the last counts.

`auto_commit_interval_s` is for a consumer with `enable.auto.commit` = false (see `wrapper`).
"""

from collections.abc import Callable
from typing import Any, Final, Self

from millstream.audit.reports.report import Kind
from millstream.audited.settings import Audit
from millstream.audited.tier import Handled
from millstream.audited.transaction_hold import Sent, TransactionHold
from millstream.audited.wrapper import AuditedClient, InHand
from millstream.errors import UsageError

OnDelivery = Callable[[Any, Any], None]
_FLUSH_S: Final = 60.0
_POSITIONAL: Final = 3
"""Value, key and partition, or, of the serialising producer, key, value and partition: after them the two differ."""


class AuditedProducer(AuditedClient):
    """A producer of confluent-kafka that counts what was delivered."""

    def __init__(self, producer: Any, *, audit: Audit, brokers: str) -> None:
        super().__init__(producer, Kind.PRODUCER, audit=audit, brokers=brokers)
        self._hold = TransactionHold(self._tier)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __len__(self) -> int:
        return len(self._client)

    def produce(self, topic: str, *args: Any, **kwargs: Any) -> None:
        """Produce a message, with the arguments of the client's own `produce`; those after the partition by their names."""
        if len(args) > _POSITIONAL:
            raise UsageError("produce: give on_delivery, timestamp and headers by their names")
        own: OnDelivery | None = kwargs.pop("on_delivery", None) or kwargs.pop("callback", None)
        token = self._tier.sending(topic)

        def delivered(error: Any, message: Any) -> None:
            self._note(token, error, message)
            if own is not None:
                own(error, message)

        try:
            self._client.produce(topic, *args, on_delivery=delivered, **kwargs)
        except BaseException:
            self._tier.failed(token)
            raise

    def begin_transaction(self) -> None:
        """Begin a transaction: its messages count when it is committed."""
        self._client.begin_transaction()
        self._hold.begin()

    def commit_transaction(self, *args: Any) -> None:
        """Commit the transaction, and count its messages."""
        self._client.commit_transaction(*args)
        self._hold.end(is_committed=True)

    def abort_transaction(self, *args: Any) -> None:
        """Abort the transaction: its messages were not sent."""
        self._client.abort_transaction(*args)
        self._hold.end(is_committed=False)

    def close(self) -> None:
        """Wait until everything has been delivered, and publish the last counts."""
        self._client.flush(_FLUSH_S)
        self._tier.close()

    def _note(self, token: int, error: Any, message: Any) -> None:
        if error is not None:
            self._tier.failed(token)
            return
        self._hold.note(Sent(token, message.topic(), message.timestamp()[1], _size(message), message.partition()))


class AuditedConsumer(AuditedClient):
    """A consumer of confluent-kafka that counts what was handled."""

    def __init__(self, consumer: Any, *, audit: Audit, brokers: str, auto_commit_interval_s: float | None = None) -> None:
        """With `auto_commit_interval_s` the wrapper commits what was handled; the client must have `enable.auto.commit` = false."""
        super().__init__(consumer, Kind.CONSUMER, audit=audit, brokers=brokers)
        self._in_hand = InHand(self._tier, _handled, auto_commit_interval_s=auto_commit_interval_s)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def subscribe(self, topics: list[str], on_assign: Any = None, on_revoke: Any = None, on_lost: Any = None) -> None:
        """Subscribe to topics; if the wrapper commits, it does so before partitions go to others."""
        callbacks = {"on_assign": on_assign, "on_revoke": on_revoke, "on_lost": on_lost}
        if self._in_hand.is_committing:

            def revoke(consumer: Any, partitions: Any) -> None:
                self._auto_commit(at_once=True)
                if on_revoke is not None:
                    on_revoke(consumer, partitions)

            callbacks["on_revoke"] = revoke
        self._client.subscribe(topics, **{name: callback for name, callback in callbacks.items() if callback is not None})

    def poll(self, *args: Any, **kwargs: Any) -> Any:
        """The next message; the one before it has been handled."""
        self._auto_commit()
        message = self._client.poll(*args, **kwargs)
        if message is not None and message.error() is None:
            self._in_hand.give(message.topic(), [message])
        return message

    def consume(self, *args: Any, **kwargs: Any) -> list[Any]:
        """The next messages; those before them have been handled."""
        self._auto_commit()
        messages: list[Any] = self._client.consume(*args, **kwargs)
        for message in messages:
            if message.error() is None:
                self._in_hand.give(message.topic(), [message])
        return messages

    def commit(self, *args: Any, **kwargs: Any) -> Any:
        """Commit offsets; what was handed out has been handled, and is published first if the commit waits (`asynchronous=False`)."""
        if kwargs.get("asynchronous", True):
            self._in_hand.settle()
        else:
            self._in_hand.publish()
        return self._client.commit(*args, **kwargs)

    def close(self) -> None:
        """Publish the last counts and close the consumer; what was handed out has been handled."""
        self._auto_commit(at_once=True)
        self._tier.close()
        self._client.close()

    def _auto_commit(self, *, at_once: bool = False) -> None:
        if not (self._in_hand.is_commit_due(at_once=at_once) and self._in_hand.publish()):
            return
        # Said with the offsets of this moment: without them the client commits what it has handed out by the time it gets to it.
        positions = [place for place in self._client.position(self._client.assignment()) if place.offset >= 0]
        if positions:
            # The client waits for the answer before it gives up partitions, or ends; it has a callback for failures, `on_commit`.
            self._client.commit(offsets=positions, asynchronous=True)


def _handled(message: Any) -> Handled:
    return Handled(message.partition(), message.offset(), message.timestamp()[1], _size(message))


def _size(message: Any) -> int:
    value, key = message.value(), message.key()
    return sum(len(part) for part in (value, key) if isinstance(part, bytes | str))
