"""kafka-python as a `GroupConsumer`."""

import warnings
from collections.abc import Collection, Mapping

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

with warnings.catch_warnings():
    warnings.simplefilter("ignore", DeprecationWarning)  # it reads its schemas with importlib.resources.read_text
    from kafka import KafkaConsumer, TopicPartition
    from kafka import errors as kafka_errors
    from kafka.structs import OffsetAndMetadata

NOT_TAKEN = (
    kafka_errors.CommitFailedError,
    kafka_errors.RebalanceInProgressError,
    kafka_errors.IllegalGenerationError,
    kafka_errors.UnknownMemberIdError,
    kafka_errors.KafkaConnectionError,
)


class KafkaPythonGroupConsumer(GroupConsumer):
    """A KafkaConsumer that subscribes."""

    def __init__(self, membership: Membership) -> None:
        self.consumer = KafkaConsumer(
            bootstrap_servers=membership.bootstrap_servers,
            group_id=membership.group,
            group_instance_id=membership.instance,
            enable_auto_commit=False,
            auto_offset_reset="earliest",
            session_timeout_ms=membership.session_timeout_ms,
            heartbeat_interval_ms=HEARTBEAT_MS,
            metadata_max_age_ms=METADATA_AGE_MS,
            fetch_max_wait_ms=100,
            reconnect_backoff_max_ms=200,
            **membership.settings,
        )
        for topic in membership.topics:
            # kafka-python's leader divides what its metadata has; elected before it has any it gives out nothing, and may never ask again.
            self.consumer.partitions_for_topic(topic)
        self.consumer.subscribe(topics=list(membership.topics), pattern=membership.pattern)

    def poll(self) -> list[Delivery]:
        polled = self.consumer.poll(timeout_ms=int(POLL_S * 1000), max_records=100)
        return [Delivery(one.topic, one.partition, one.offset, one.value) for records in polled.values() for one in records]

    def assignment(self) -> frozenset[Place]:
        return frozenset((place.topic, place.partition) for place in self.consumer.assignment())

    def commit(self, offsets: Mapping[Place, int] | None = None, *, metadata: str = "") -> None:
        wanted = None
        if offsets is not None:
            wanted = {TopicPartition(*place): OffsetAndMetadata(offset, metadata, -1) for place, offset in offsets.items()}
        try:
            self.consumer.commit(wanted)
        except NOT_TAKEN as error:
            raise CommitRefused(str(error)) from error

    def commit_later(self) -> None:
        self.consumer.commit_async()

    def committed(self, places: Collection[Place]) -> dict[Place, int | None]:
        return {place: self.consumer.committed(TopicPartition(*place)) for place in places}

    def seek(self, place: Place, offset: int) -> None:
        self.consumer.seek(TopicPartition(*place), offset)

    def close(self) -> None:
        self.consumer.close(autocommit=False)
