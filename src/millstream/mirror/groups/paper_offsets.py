"""Copies the offsets of the paper's groups from the znodes of one ZooKeeper to those of the other.

As those of Kafka's groups: only forward, never past the end of the copy, and not for a group that has consumers at the target.
"""

from millstream.coordination import paths
from millstream.coordination.interface import Coordination
from millstream.mirror.groups.group_offsets import Offsets, groups_to_copy, offsets_to_copy
from millstream.paper.group_registry import GroupRegistry
from millstream.topic_partition import TopicPartition
from millstream.zookeeper.errors import BadVersion, NodeExists, NoNode


class PaperOffsets:
    """Copies offsets between two trees."""

    def __init__(self, source: Coordination, target: Coordination) -> None:
        self._source = source
        self._target = target

    async def copy(self, ends: Offsets) -> int:
        """Copy what is stored for these partitions; of how many partitions of groups it was."""
        copied = 0
        for group in groups_to_copy(await _children(self._source, paths.CONSUMERS)):
            if not await _children(self._target, paths.consumer_ids(group)):
                copied += await self._copy(group, ends)
        return copied

    async def _copy(self, group: str, ends: Offsets) -> int:
        source, target = GroupRegistry(self._source, group), GroupRegistry(self._target, group)
        topics = set(await _children(self._source, f"{paths.CONSUMERS}/{group}/offsets"))
        stored = {place: (await source.stored(*place)).offset for place in ends if place.topic in topics}
        there = {place: await target.stored(*place) for place, offset in stored.items() if offset is not None}
        wanted = offsets_to_copy(
            {place: offset for place, offset in stored.items() if offset is not None},
            {place: found.offset for place, found in there.items() if found.offset is not None},
            ends=ends,
        )
        return sum([await self._write(group, place, offset, there[place].version) for place, offset in wanted.items()])

    async def _write(self, group: str, place: TopicPartition, offset: int, version: int | None) -> bool:
        """Over the version that was read: a consumer that comes in between keeps its own."""
        path, data = paths.committed_offset(group, topic_name=place.topic, partition=place.partition), str(offset).encode()
        try:
            if version is None:
                await self._target.create(path, data, make_parents=True)
            else:
                await self._target.set(path, data, version=version)
        except (BadVersion, NodeExists, NoNode):
            return False
        return True


async def _children(coordination: Coordination, path: str) -> list[str]:
    try:
        return await coordination.children(path)
    except NoNode:
        return []
