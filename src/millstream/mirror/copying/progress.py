"""How far a mirror has come, as the committed offsets of a consumer group at the source: ordinary tools show its lag there.

The end of the target's log, not the commit, says where to go on. The commit says what the source was when it was copied: its leader epoch
is that of the last batch, by which a source that lost records since is recognised (`partition_start`). Its metadata, `audited N`, say up
to where the audit has reports.
"""

from collections.abc import Iterable, Mapping
from typing import Any, Final, NamedTuple

from millstream.client.codecs.request import MessageRequest
from millstream.client.errors import kafka_error
from millstream.errors import KafkaError, MillstreamError
from millstream.mirror.clusters.side import Side
from millstream.topic_partition import TopicPartition
from millstream.wire.api import ApiKey

_LAST_FETCH_OF_ONE: Final = 7
_LAST_COMMIT_BY_NAME: Final = 9
_AUDITED: Final = "audited "
_FIRST_WITH_EPOCH_COMMIT, _FIRST_WITH_EPOCH_FETCH = 6, 5


class Committed(NamedTuple):
    """What was committed of a partition; -1 if nothing was."""

    offset: int = -1
    leader_epoch: int = -1
    audited: int = -1
    """Up to where the audit has reports of what was copied."""


class Progress:
    """The committed offsets of one mirror."""

    def __init__(self, source: Side, group: str) -> None:
        self._source = source
        self._group = group
        self._known: dict[TopicPartition, Committed] = {}

    async def committed(self, partition: TopicPartition) -> Committed:
        """What was committed of the partition last."""
        found = await self._fetch([{"name": partition.topic, "partition_indexes": [partition.partition]}])
        return found.get(partition, Committed())

    async def all_committed(self) -> dict[TopicPartition, Committed]:
        """What was committed last of every partition."""
        return await self._fetch(None)

    async def _fetch(self, topics: list[dict[str, object]] | None) -> dict[TopicPartition, Committed]:
        request: MessageRequest[Any] = MessageRequest(
            ApiKey.OFFSET_FETCH,
            {"group_id": self._group, "topics": topics, "require_stable": False},
            lowest=_FIRST_WITH_EPOCH_FETCH,
            highest=_LAST_FETCH_OF_ONE,
        )
        answer = await self._ask(request)
        self._check(answer.error_code)
        committed = {}
        for topic in answer.topics:
            for found in topic.partitions:
                self._check(found.error_code)
                place = TopicPartition(topic.name, found.partition_index)
                committed[place] = Committed(found.committed_offset, found.committed_leader_epoch, _audited(found.metadata))
        return committed

    async def commit(self, reached: Mapping[TopicPartition, Committed]) -> None:
        """Commit what has moved on since the last time."""
        moved = {partition: to for partition, to in reached.items() if to.offset >= 0 and self._known.get(partition) != to}
        if not moved:
            return
        topics: dict[str, list[dict[str, object]]] = {}
        for (topic, index), (offset, epoch, audited) in moved.items():
            entry = {
                "partition_index": index,
                "committed_offset": offset,
                "committed_leader_epoch": epoch,
                "committed_metadata": "" if audited < 0 else f"{_AUDITED}{audited}",
            }
            topics.setdefault(topic, []).append(entry)
        fields = {
            "group_id": self._group,
            "generation_id_or_member_epoch": -1,
            "member_id": "",
            "topics": [{"name": name, "partitions": partitions} for name, partitions in topics.items()],
        }
        request: MessageRequest[Any] = MessageRequest(
            ApiKey.OFFSET_COMMIT, fields, lowest=_FIRST_WITH_EPOCH_COMMIT, highest=_LAST_COMMIT_BY_NAME
        )
        answer = await self._ask(request)
        for topic in answer.topics:
            for found in topic.partitions:
                self._check(found.error_code)
        self._known |= moved

    def forget(self, partitions: Iterable[TopicPartition]) -> None:
        """These are copied no longer, or by another."""
        for partition in partitions:
            self._known.pop(partition, None)

    async def _ask(self, request: MessageRequest[Any]) -> Any:
        try:
            return await self._source.ask_coordinator(self._group, request)
        except MillstreamError:
            self._source.forget_coordinator(self._group)
            raise

    def _check(self, error_code: int) -> None:
        if error_code:
            self._source.forget_coordinator(self._group)
            error: KafkaError = kafka_error(error_code, f"the group {self._group} at the source")
            raise error


def _audited(metadata: str | None) -> int:
    digits = (metadata or "").removeprefix(_AUDITED)
    return int(digits) if digits.isdecimal() else -1
