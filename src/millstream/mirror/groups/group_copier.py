"""Copies the committed offsets of consumer groups to the target, every few seconds, so that a group can go on there.

Each process does it for the partitions that it copies. The source is asked about many groups at a time; the target only about those whose
offsets have moved since the last round, and written to only where that brings them forward. A group that has members at the target is left
alone: the target refuses a commit that does not come from one of them, and it is tried again after a while.
"""

import asyncio
import logging
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

from millstream.address import Address
from millstream.client.codecs.request import MessageRequest
from millstream.client.errors import BrokerUnavailable, kafka_error
from millstream.errors import MillstreamError, NonEmptyGroup, UnknownMemberId
from millstream.mirror.clusters.side import Side
from millstream.mirror.groups.group_offsets import Offsets, groups_to_copy, offsets_to_copy
from millstream.topic_partition import TopicPartition
from millstream.wire.api import ApiKey

logger = logging.getLogger(__name__)

ASKED_AT_ONCE: Final = 50
"""Groups in one OffsetFetch: some milliseconds for a broker, and for us."""
IN_USE_S: Final = 30.0
"""A group that has members at the target is not tried again before."""
_IS_IN_USE: Final = frozenset({UnknownMemberId.code, NonEmptyGroup.code})
_FIRST_OF_SEVERAL, _LAST_BY_NAME = 8, 9
_FIRST_WITH_EPOCH_COMMIT, _LAST_COMMIT_BY_NAME = 6, 9


class GroupCopier:
    """Copies offsets from one cluster to the other."""

    def __init__(self, source: Side, target: Side) -> None:
        self._source, self._target = source, target
        self._loop = asyncio.get_running_loop()
        self._dealt_with: dict[str, Offsets] = {}
        """What was to be copied of each group when the target was asked last."""
        self._retry_at: dict[str, float] = {}
        """When groups that have members at the target are tried again."""

    async def copy(self, ends: Offsets) -> int:
        """Copy what is committed for these partitions, up to their ends; of how many partitions of groups it was."""
        if not ends:
            return 0
        names = groups_to_copy(await self._listed())
        self._forget_others(names)
        copied = 0
        for start in range(0, len(names), ASKED_AT_ONCE):
            source = await self._committed(self._source, names[start : start + ASKED_AT_ONCE])
            moved = {name: wanted for name, offsets in source.items() if (wanted := self._moved(name, offsets, ends))}
            target = await self._committed(self._target, moved) if moved else {}
            commits = [self._commit(name, moved[name], offsets_to_copy(moved[name], there, ends=ends)) for name, there in target.items()]
            copied += sum(await asyncio.gather(*commits))
        return copied

    async def _listed(self) -> list[str]:
        request: MessageRequest[Any] = MessageRequest(ApiKey.LIST_GROUPS, {"states_filter": [], "types_filter": []})
        found: list[str] = []
        for answer in await self._source.ask_every_broker(request):
            if answer.error_code:
                raise kafka_error(answer.error_code, f"{self._source} does not list its groups for now")
            found += (group.group_id for group in answer.groups)
        return found

    def _forget_others(self, names: Sequence[str]) -> None:
        for gone in (self._dealt_with.keys() | self._retry_at.keys()).difference(names):
            self._dealt_with.pop(gone, None)
            self._retry_at.pop(gone, None)
            self._source.forget_coordinator(gone)
            self._target.forget_coordinator(gone)

    def _moved(self, group: str, committed: Offsets, ends: Offsets) -> Offsets:
        """What is to be copied of a group; nothing if that is what it was the last time."""
        wanted = offsets_to_copy(committed, {}, ends=ends)
        is_due = self._retry_at.get(group, 0.0) <= self._loop.time()
        return wanted if is_due and self._dealt_with.get(group) != wanted else {}

    async def _committed(self, side: Side, groups: Iterable[str]) -> dict[str, dict[TopicPartition, int]]:
        """What is committed; groups that cannot be asked about for now are left out."""
        by_coordinator: dict[Address, list[str]] = {}
        for group, address in (await side.coordinators(groups)).items():
            by_coordinator.setdefault(address, []).append(group)
        found: dict[str, dict[TopicPartition, int]] = {}
        for address, names in by_coordinator.items():
            try:
                found |= await self._committed_at(side, address, names)
            except BrokerUnavailable as error:
                logger.debug("the offsets of %d group(s) are copied later: %s", len(names), error)
                for name in names:
                    side.forget_coordinator(name)
        return found

    async def _committed_at(self, side: Side, address: Address, names: list[str]) -> dict[str, dict[TopicPartition, int]]:
        found: dict[str, dict[TopicPartition, int]] = {}
        fields = {"groups": [{"group_id": name, "topics": None} for name in names], "require_stable": False}
        request: MessageRequest[Any] = MessageRequest(ApiKey.OFFSET_FETCH, fields, lowest=_FIRST_OF_SEVERAL, highest=_LAST_BY_NAME)
        for group in (await side.ask_at(address, request)).groups:
            if group.error_code:
                side.forget_coordinator(group.group_id)
                continue
            found[group.group_id] = {
                TopicPartition(topic.name, each.partition_index): each.committed_offset
                for topic in group.topics
                for each in topic.partitions
                if not each.error_code
            }
        return found

    async def _commit(self, group: str, wanted: Offsets, offsets: Mapping[TopicPartition, int]) -> int:
        """Commit these offsets at the target; how many it took."""
        try:
            errors = await self._write(group, offsets) if offsets else []
        except MillstreamError as error:
            self._target.forget_coordinator(group)
            logger.debug("the offsets of the group %s are copied later: %s", group, error)
            return 0
        failed = {error_code for error_code in errors if error_code}
        if not failed:
            self._dealt_with[group] = wanted
        elif failed & _IS_IN_USE:
            self._retry_at[group] = self._loop.time() + IN_USE_S
        else:
            self._target.forget_coordinator(group)
            logger.warning("the offsets of the group %s are not copied for now: %s", group, kafka_error(min(failed), "at the target"))
        return errors.count(0)

    async def _write(self, group: str, offsets: Mapping[TopicPartition, int]) -> list[int]:
        topics: dict[str, list[dict[str, object]]] = {}
        for (topic, partition), offset in offsets.items():
            entry = {"partition_index": partition, "committed_offset": offset, "committed_leader_epoch": -1, "committed_metadata": ""}
            topics.setdefault(topic, []).append(entry)
        fields = {
            "group_id": group,
            "generation_id_or_member_epoch": -1,
            "member_id": "",
            "topics": [{"name": name, "partitions": partitions} for name, partitions in topics.items()],
        }
        request: MessageRequest[Any] = MessageRequest(
            ApiKey.OFFSET_COMMIT, fields, lowest=_FIRST_WITH_EPOCH_COMMIT, highest=_LAST_COMMIT_BY_NAME
        )
        answer = await self._target.ask_coordinator(group, request)
        return [each.error_code for topic in answer.topics for each in topic.partitions]
