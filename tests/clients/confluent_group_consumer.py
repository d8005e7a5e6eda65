"""confluent-kafka (librdkafka) as a `GroupConsumer`, with the classic protocol or the new one (`group.protocol=consumer`)."""

from collections.abc import Collection, Mapping
from typing import Any

from confluent_kafka import Consumer, KafkaError, KafkaException, TopicPartition

from tests.clients.group_consumer import (
    HEARTBEAT_MS,
    METADATA_AGE_MS,
    POLL_S,
    CommitRefused,
    Delivery,
    GroupConsumer,
    Membership,
    Place,
)
from tests.waiting import DEADLINE_S

NOT_TAKEN = {
    KafkaError.REBALANCE_IN_PROGRESS,
    KafkaError.ILLEGAL_GENERATION,
    KafkaError.UNKNOWN_MEMBER_ID,
    KafkaError.STALE_MEMBER_EPOCH,
    KafkaError.FENCED_MEMBER_EPOCH,
    KafkaError._NO_OFFSET,
    KafkaError._ASSIGNMENT_LOST,
    KafkaError._TRANSPORT,
    KafkaError._WAIT_COORD,
}


class ConfluentGroupConsumer(GroupConsumer):
    """A librdkafka consumer that subscribes."""

    def __init__(self, membership: Membership) -> None:
        settings: dict[str, Any] = {
            "bootstrap.servers": membership.bootstrap_servers,
            "group.id": membership.group,
            "enable.auto.commit": False,
            "auto.offset.reset": "earliest",
            "fetch.wait.max.ms": 100,
            "topic.metadata.refresh.interval.ms": METADATA_AGE_MS,
            "reconnect.backoff.max.ms": 200,
            "allow.auto.create.topics": False,
            "logger": _Silent(),
            **membership.settings,
        }
        if settings.get("group.protocol") != "consumer":
            settings |= {"session.timeout.ms": membership.session_timeout_ms, "heartbeat.interval.ms": HEARTBEAT_MS}
        if membership.instance is not None:
            settings["group.instance.id"] = membership.instance
        self.consumer = Consumer(settings)
        self.consumer.subscribe([membership.pattern] if membership.pattern else list(membership.topics))

    def poll(self) -> list[Delivery]:
        deliveries = []
        for message in self.consumer.consume(100, POLL_S):
            error = message.error()
            if error is None:
                deliveries.append(Delivery(message.topic() or "", _number(message.partition()), _number(message.offset()), _value(message)))
            elif error.fatal() or error.code() == KafkaError.FENCED_INSTANCE_ID:
                raise KafkaException(error)
        return deliveries

    def assignment(self) -> frozenset[Place]:
        return frozenset((place.topic, place.partition) for place in self.consumer.assignment())

    def commit(self, offsets: Mapping[Place, int] | None = None, *, metadata: str = "") -> None:
        try:
            if offsets is None:
                done = self.consumer.commit(asynchronous=False)
            else:
                wanted = [TopicPartition(topic, partition, offset, metadata) for (topic, partition), offset in offsets.items()]
                done = self.consumer.commit(offsets=wanted, asynchronous=False)
        except KafkaException as error:
            if error.args[0].code() in NOT_TAKEN:
                raise CommitRefused(str(error)) from error
            raise
        for place in done or []:
            if place.error is not None:
                raise CommitRefused(str(place.error))

    def commit_later(self) -> None:
        try:
            self.consumer.commit(asynchronous=True)
        except KafkaException as error:
            raise CommitRefused(str(error)) from error

    def committed(self, places: Collection[Place]) -> dict[Place, int | None]:
        found = self.consumer.committed([TopicPartition(topic, partition) for topic, partition in places], timeout=DEADLINE_S)
        return {(place.topic, place.partition): place.offset if place.offset >= 0 else None for place in found}

    def seek(self, place: Place, offset: int) -> None:
        self.consumer.seek(TopicPartition(*place, offset))

    def close(self) -> None:
        self.consumer.close()


class _Silent:
    """librdkafka tells of every lost connection; tests that kill brokers make many."""

    def log(self, *arguments: object) -> None:
        """Nothing."""


def _number(number: int | None) -> int:
    assert number is not None
    return number


def _value(message: Any) -> bytes:
    value = message.value()
    assert isinstance(value, bytes)
    return value
