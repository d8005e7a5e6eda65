"""The auditors of a cluster as one consumer group on `_audit`: which partitions are this one's, and the reports in them.

confluent-kafka keeps the membership and fetches. Where to begin is not the group's business: the state of a partition says it, so the
offsets that are committed are for tools that show the lag. Everything happens in the thread that calls `poll`.
"""

from collections.abc import Callable, Mapping
from typing import Any, Final, NamedTuple

from confluent_kafka import Consumer, KafkaException, Message, TopicPartition

from millstream.audit.reports.report import AUDIT_TOPIC
from millstream.client.errors import BrokerUnavailable
from millstream.errors import UsageError

MESSAGES_PER_POLL: Final = 500
FORWARDED_HEADER: Final = "forwarded"


class AuditMessage(NamedTuple):
    """One message of `_audit`."""

    partition: int
    offset: int
    arrived_ms: int
    value: bytes | None
    is_forwarded: bool = False
    """Whether an auditor put it there, because it had been written to another partition than the topic's."""


class AuditGroup:
    """A member of the group; `on_assigned` gives the position to begin at, `on_revoked` is called before others take over."""

    def __init__(
        self,
        client_options: Mapping[str, str],
        *,
        group: str,
        on_assigned: Callable[[int], int],
        on_revoked: Callable[[list[int]], None],
        on_lost: Callable[[list[int]], None],
    ) -> None:
        options: dict[str, Any] = {
            "client.id": "millstream-audit",
            "log_level": 0,
            "session.timeout.ms": 10_000,
            "partition.assignment.strategy": "range",
            # That `_audit` has more partitions is noticed by asking.
            "topic.metadata.refresh.interval.ms": 30_000,
            **client_options,
            "group.id": group,
            "enable.auto.commit": False,
            "enable.partition.eof": False,
            "auto.offset.reset": "earliest",
            "error_cb": self._note,
        }
        self._on_assigned = on_assigned
        self._on_revoked = on_revoked
        self._on_lost = on_lost
        self.problem = ""
        """What librdkafka last complained about."""
        try:
            self._consumer = Consumer(options)
        except KafkaException as error:
            raise UsageError(f"an option of the client is wrong: {error.args[0].str()}") from None
        self._consumer.subscribe([AUDIT_TOPIC], on_assign=self._assign, on_revoke=self._revoke, on_lost=self._lose)

    def poll(self, timeout_s: float) -> list[AuditMessage]:
        """The next messages, in the order of their partitions."""
        found = []
        try:
            messages = self._consumer.consume(MESSAGES_PER_POLL, timeout_s)
        except KafkaException as error:
            raise BrokerUnavailable(f"the group of auditors cannot go on: {error.args[0] if error.args else error}") from error
        for message in messages:
            if message.error() is None:
                found.append(_message(message))
            else:
                self.problem = str(message.error())
        return found

    def hold(self, partition: int) -> None:
        """Fetch nothing more of a partition for now."""
        try:
            self._consumer.pause([TopicPartition(AUDIT_TOPIC, partition)])
        except KafkaException as error:
            raise _cannot_go_on(partition, error) from error

    def go_on(self, partition: int, offset: int) -> None:
        """Fetch from this offset on what was held."""
        place = TopicPartition(AUDIT_TOPIC, partition, offset)
        try:
            self._consumer.seek(place)
            self._consumer.resume([place])
        except KafkaException as error:
            raise _cannot_go_on(partition, error) from error

    def commit(self, positions: Mapping[int, int]) -> None:
        """Let tools see how far the partitions are read."""
        if positions:
            self._consumer.commit(
                offsets=[TopicPartition(AUDIT_TOPIC, partition, offset) for partition, offset in positions.items()], asynchronous=True
            )

    def close(self) -> None:
        """Leave the group."""
        self._consumer.close()

    def _assign(self, consumer: Consumer, partitions: list[TopicPartition]) -> None:
        consumer.assign([TopicPartition(AUDIT_TOPIC, one.partition, self._on_assigned(one.partition)) for one in partitions])
        # One that was held when it was taken away is not held any more.
        consumer.resume([TopicPartition(AUDIT_TOPIC, one.partition) for one in partitions])

    def _revoke(self, consumer: Consumer, partitions: list[TopicPartition]) -> None:
        self._on_revoked([one.partition for one in partitions])

    def _lose(self, consumer: Consumer, partitions: list[TopicPartition]) -> None:
        self._on_lost([one.partition for one in partitions])

    def _note(self, error: object) -> None:
        self.problem = str(error)


def _cannot_go_on(partition: int, error: KafkaException) -> BrokerUnavailable:
    return BrokerUnavailable(f"partition {partition} of {AUDIT_TOPIC} cannot be read on: {error.args[0] if error.args else error}")


def _message(message: Message) -> AuditMessage:
    _, timestamp = message.timestamp()
    partition, offset = message.partition(), message.offset()
    assert partition is not None
    assert offset is not None
    is_forwarded = any(header[0] == FORWARDED_HEADER for header in message.headers() or ())
    return AuditMessage(partition, offset, timestamp, message.value(), is_forwarded)
