"""The audit for programs that use kafka-python: wrap the producer or consumer, and use it as before.

    producer = AuditedProducer(KafkaProducer(bootstrap_servers=brokers), audit="checkout", brokers=brokers)
    consumer = AuditedConsumer(KafkaConsumer("orders", bootstrap_servers=brokers), audit="billing", brokers=brokers)

A message is sent when its future says so; messages of a transaction count when it is committed. `producer.close()`, or `with`,
publishes the last counts.

`auto_commit_interval_s` is for a consumer with `enable_auto_commit=False` (see `wrapper`).
"""

from collections.abc import Callable, Iterator
from typing import Any, Final, Self

from kafka import ConsumerRebalanceListener
from kafka.errors import KafkaError

from millstream.audit.reports.report import Kind
from millstream.audited.settings import Audit
from millstream.audited.transaction_hold import Sent, TransactionHold
from millstream.audited.wrapper import AuditedClient, InHand, handled_record, say_not_committed

_COMMIT_TIMEOUT_MS: Final = 5_000


class AuditedProducer(AuditedClient):
    """A `KafkaProducer` that counts what was sent."""

    def __init__(self, producer: Any, *, audit: Audit, brokers: str) -> None:
        super().__init__(producer, Kind.PRODUCER, audit=audit, brokers=brokers)
        self._hold = TransactionHold(self._tier)

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

    def begin_transaction(self) -> None:
        """Begin a transaction: its messages count when it is committed."""
        self._client.begin_transaction()
        self._hold.begin()

    def commit_transaction(self) -> None:
        """Commit the transaction, and count its messages."""
        self._client.commit_transaction()
        self._hold.end(is_committed=True)

    def abort_transaction(self) -> None:
        """Abort the transaction: its messages were not sent."""
        self._client.abort_transaction()
        self._hold.end(is_committed=False)

    def close(self, *args: Any, **kwargs: Any) -> None:
        """Wait until everything has been sent, close the producer, and publish the last counts."""
        self._client.close(*args, **kwargs)
        self._tier.close()

    def _sent(self, token: int, metadata: Any) -> None:
        sizes = (metadata.serialized_key_size, metadata.serialized_value_size)
        size = sum(size for size in sizes if size > 0)
        self._hold.note(Sent(token, metadata.topic, metadata.timestamp, size, metadata.partition))

    def _failed(self, token: int, _error: BaseException) -> None:
        self._tier.failed(token)


class AuditedConsumer(AuditedClient):
    """A `KafkaConsumer` that counts what was handled."""

    def __init__(self, consumer: Any, *, audit: Audit, brokers: str, auto_commit_interval_s: float | None = None) -> None:
        """With `auto_commit_interval_s` the wrapper commits what was handled; the client must have `enable_auto_commit=False`."""
        super().__init__(consumer, Kind.CONSUMER, audit=audit, brokers=brokers)
        self._in_hand = InHand(self._tier, handled_record, auto_commit_interval_s=auto_commit_interval_s)
        config = consumer.config
        self._in_hand.check(group=config["group_id"], client_commits=config["enable_auto_commit"], option="enable_auto_commit=False")
        if self._in_hand.is_committing and consumer.subscription():
            self.subscribe(topics=sorted(consumer.subscription()))

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __iter__(self) -> Iterator[Any]:
        return self

    def subscribe(self, topics: Any = (), pattern: str | None = None, listener: Any = None) -> None:
        """Subscribe to topics; if the wrapper commits, it does so before partitions go to others."""
        if self._in_hand.is_committing:
            listener = _CommitFirst(self._auto_commit, listener)
        self._client.subscribe(topics=topics, pattern=pattern, listener=listener)

    def __next__(self) -> Any:
        self._auto_commit()
        record = next(self._client)
        self._in_hand.give(record.topic, [record])
        return record

    def poll(self, *args: Any, **kwargs: Any) -> dict[Any, list[Any]]:
        """The next messages; those before them have been handled."""
        self._auto_commit()
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
        self._auto_commit(at_once=True)
        self._tier.close()
        self._client.close(*args, **kwargs)

    def _auto_commit(self, *, at_once: bool = False) -> None:
        if self._in_hand.is_commit_due(at_once=at_once) and self._in_hand.publish():
            try:
                if at_once:
                    self._client.commit(timeout_ms=_COMMIT_TIMEOUT_MS)
                else:
                    self._client.commit_async(callback=_note_commit)
            except KafkaError as error:
                say_not_committed(error)


class _CommitFirst(ConsumerRebalanceListener):  # type: ignore[misc]  # kafka-python has no types
    """Commits before partitions go to others, and asks the application's listener, if there is one."""

    def __init__(self, commit: Callable[..., None], own: Any) -> None:
        self._commit = commit
        self._own = own

    def on_partitions_revoked(self, revoked: Any) -> None:
        self._commit(at_once=True)
        if self._own is not None:
            self._own.on_partitions_revoked(revoked)

    def on_partitions_assigned(self, assigned: Any) -> None:
        if self._own is not None:
            self._own.on_partitions_assigned(assigned)


def _note_commit(_offsets: Any, answer: Any) -> None:
    if isinstance(answer, Exception):
        say_not_committed(answer)
