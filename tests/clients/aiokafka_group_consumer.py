"""aiokafka as a `GroupConsumer`; its event loop runs while it is asked something, which whoever polls it does all the time."""

import asyncio
from collections.abc import Collection, Coroutine, Mapping
from typing import Any, TypeVar

from aiokafka import AIOKafkaConsumer, TopicPartition
from aiokafka import errors as aiokafka_errors

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

T = TypeVar("T")

NOT_TAKEN = (
    aiokafka_errors.CommitFailedError,
    aiokafka_errors.RebalanceInProgressError,
    aiokafka_errors.IllegalGenerationError,
    aiokafka_errors.UnknownMemberIdError,
    aiokafka_errors.IllegalStateError,
    aiokafka_errors.KafkaConnectionError,
)


class AiokafkaGroupConsumer(GroupConsumer):
    """An AIOKafkaConsumer that subscribes."""

    def __init__(self, membership: Membership) -> None:
        self.runner = asyncio.Runner()
        self.consumer = self.runner.run(_start(membership))

    def poll(self) -> list[Delivery]:
        polled = self._run(self.consumer.getmany(timeout_ms=int(POLL_S * 1000), max_records=100))
        return [Delivery(one.topic, one.partition, one.offset, one.value) for records in polled.values() for one in records]

    def assignment(self) -> frozenset[Place]:
        return frozenset((place.topic, place.partition) for place in self.consumer.assignment())

    def commit(self, offsets: Mapping[Place, int] | None = None, *, metadata: str = "") -> None:
        wanted = None
        if offsets is not None:
            wanted = {TopicPartition(*place): (offset, metadata) for place, offset in offsets.items()}
        try:
            self._run(self.consumer.commit(wanted))
        except NOT_TAKEN as error:
            raise CommitRefused(str(error)) from error

    def commit_later(self) -> None:
        """It has no such call; what it has is a coroutine, which is waited for here."""
        self.commit()

    def committed(self, places: Collection[Place]) -> dict[Place, int | None]:
        return {place: self._run(self.consumer.committed(TopicPartition(*place))) for place in places}

    def seek(self, place: Place, offset: int) -> None:
        async def seek() -> None:
            self.consumer.seek(TopicPartition(*place), offset)

        self._run(seek())

    def close(self) -> None:
        self._run(self.consumer.stop())
        self.runner.close()

    def _run(self, coroutine: Coroutine[Any, Any, T]) -> T:
        return self.runner.run(coroutine)


async def _start(membership: Membership) -> Any:
    consumer = AIOKafkaConsumer(
        bootstrap_servers=membership.bootstrap_servers,
        group_id=membership.group,
        group_instance_id=membership.instance,
        enable_auto_commit=False,
        auto_offset_reset="earliest",
        session_timeout_ms=membership.session_timeout_ms,
        heartbeat_interval_ms=HEARTBEAT_MS,
        metadata_max_age_ms=METADATA_AGE_MS,
        fetch_max_wait_ms=100,
        **membership.settings,
    )
    consumer.subscribe(topics=list(membership.topics), pattern=membership.pattern)
    await consumer.start()
    return consumer
