"""Copies the offsets of the paper's groups from the znodes of one ZooKeeper to those of the other.

As those of Kafka's groups: only forward, never past the end of the copy, and not for a group that has consumers at the target. Each znode
of the source is read once and watched: a round costs as much as there were changes, not as many groups as there are, and a round that
has much to do leaves the rest to the next one.
"""

import asyncio
from bisect import bisect_right
from typing import Final

from millstream.coordination import paths
from millstream.coordination.interface import Coordination, SessionState, WatchCallback, WatchEvent
from millstream.mirror.groups.group_offsets import Offsets, groups_to_copy, offsets_to_copy
from millstream.paper.groups.group_registry import GroupRegistry, read_offset
from millstream.topic_partition import TopicPartition
from millstream.zookeeper.errors import BadVersion, NodeExists, NoNode

GROUPS_AT_ONCE: Final = 20
GROUPS_PER_ROUND: Final = 500


class PaperOffsets:
    """Copies offsets between two trees."""

    def __init__(self, source: Coordination, target: Coordination) -> None:
        self._source = source
        self._target = target
        self._places: frozenset[TopicPartition] = frozenset()
        self._settled: set[str] = set()
        """Groups of which everything is copied, until a watch says that something has changed."""
        self._dealt_with: dict[str, Offsets] = {}
        """What was to be copied of each group when the target was asked last."""
        self._watched: set[str] = set()
        self._last_group = ""
        """Where the last round ended."""
        source.add_session_listener(self._session_changed)

    async def copy(self, ends: Offsets) -> int:
        """Copy what is stored for these partitions; of how many partitions of groups it was."""
        if self._places != ends.keys():
            self._places = frozenset(ends)
            self._settled.clear()
        groups = groups_to_copy(await _children(self._source, paths.CONSUMERS))
        self._settled.intersection_update(groups)
        self._dealt_with = {group: self._dealt_with[group] for group in groups if group in self._dealt_with}
        due = [group for group in groups if group not in self._settled]
        after = bisect_right(due, self._last_group)
        due = [*due[after:], *due[:after]][:GROUPS_PER_ROUND]
        copied = 0
        for start in range(0, len(due), GROUPS_AT_ONCE):
            copied += sum(await asyncio.gather(*(self._copy(group, ends) for group in due[start : start + GROUPS_AT_ONCE])))
        self._last_group = due[-1] if due else ""
        return copied

    async def _copy(self, group: str, ends: Offsets) -> int:
        self._settled.add(group)  # Whatever changes from now on takes it out again.
        try:
            stored = await self._stored(group)
            wanted = offsets_to_copy(stored, {}, ends=ends)
            if any(wanted[place] < stored[place] for place in wanted):
                self._settled.discard(group)  # The copy has yet to come so far.
            if not wanted or wanted == self._dealt_with.get(group):
                return 0
            return await self._bring_forward(group, wanted, ends)
        except BaseException:
            self._settled.discard(group)
            raise

    async def _bring_forward(self, group: str, wanted: Offsets, ends: Offsets) -> int:
        """Write at the target what is behind there."""
        if await _children(self._target, paths.consumer_ids(group)):
            self._settled.discard(group)
            return 0
        target = GroupRegistry(self._target, group)
        there = dict(zip(wanted, await asyncio.gather(*(target.stored(*place) for place in wanted)), strict=True))
        behind = offsets_to_copy(wanted, {place: found.offset for place, found in there.items() if found.offset is not None}, ends=ends)
        written = [await self._write(group, place, offset, there[place].version) for place, offset in behind.items()]
        if all(written):
            self._dealt_with[group] = wanted
        else:
            self._settled.discard(group)
        return sum(written)

    async def _stored(self, group: str) -> dict[TopicPartition, int]:
        """What the group has stored at the source for the partitions that are copied."""
        parent = f"{paths.CONSUMERS}/{group}/offsets"
        watch = self._watch(group, parent)
        try:
            topics = set(await self._source.children(parent, watch=watch))
        except BaseException as error:
            self._watched.discard(parent)
            self._settled.discard(group)
            if isinstance(error, NoNode):
                return {}
            raise
        places = [place for place in self._places if place.topic in topics]
        offsets = await asyncio.gather(*(self._offset(group, place) for place in places))
        return {place: offset for place, offset in zip(places, offsets, strict=True) if offset is not None}

    async def _offset(self, group: str, place: TopicPartition) -> int | None:
        path = paths.committed_offset(group, topic_name=place.topic, partition=place.partition)
        watch = self._watch(group, path)
        try:
            data, _ = await self._source.get(path, watch=watch)
        except NoNode:
            if await self._source.exists(path, watch=watch) is not None:
                self._settled.discard(group)  # It has come in between.
            return None
        except BaseException:
            self._watched.discard(path)
            raise
        return read_offset(data)

    def _watch(self, group: str, path: str) -> WatchCallback | None:
        """What is to be called when the path changes; None if that is watched already."""
        if path in self._watched:
            return None
        self._watched.add(path)

        def fired(_event: WatchEvent) -> None:
            self._watched.discard(path)
            self._settled.discard(group)

        return fired

    def _session_changed(self, state: SessionState) -> None:
        if state is SessionState.CONNECTED:  # Watches do not outlive a lost connection.
            self._watched.clear()
            self._settled.clear()

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
