"""Offsets inside open transactions: committed by a producer, and not yet real.

    group id -> topic -> partition -> producer id -> PendingOffset

A transaction's marker ends them: commit makes them real, abort drops them. Of several commits of one partition the one whose record stands
later in the log holds, whichever transaction ends first, because compaction keeps that one alone. So a pending offset is outdated as soon
as a plain commit is written after it, or a later one of another transaction is made real: it stays pending, since its transaction is
open, and is worth nothing in the end. A tombstone drops it.

A producer has one transaction at a time, whatever its epoch: its id alone says which.
"""

from collections.abc import Iterator, KeysView
from typing import NamedTuple

from millstream.groups.offsets.records import CommittedOffset, OffsetKey


class PendingOffset(NamedTuple):
    """What a transaction will have committed."""

    order: int
    """A later record has a larger one."""
    committed: CommittedOffset
    is_outdated: bool = False


PartitionsPending = dict[int, dict[int, PendingOffset]]
"""By partition, then by producer id."""
_NOTHING: PartitionsPending = {}


class PendingOffsets:
    """The pending offsets of all groups of a shard."""

    __slots__ = ("_groups", "_next_order", "producers")

    def __init__(self) -> None:
        self._groups: dict[str, dict[str, PartitionsPending]] = {}
        self.producers: dict[int, dict[OffsetKey, None]] = {}
        """Where each producer has offsets pending; empty if nothing is pending at all, which every commit asks."""
        self._next_order = 0

    def add(self, producer_id: int, key: OffsetKey, committed: CommittedOffset) -> None:
        """A producer committed an offset in its transaction; the last one of several in a partition counts."""
        partitions = self._groups.setdefault(key.group_id, {}).setdefault(key.topic, {})
        partitions.setdefault(key.partition, {})[producer_id] = PendingOffset(self._next_order, committed)
        self.producers.setdefault(producer_id, {})[key] = None
        self._next_order += 1

    def outdate(self, key: OffsetKey, *, before: int | None = None) -> None:
        """A commit was written that is later than what is pending there, or than what has an order below `before`."""
        pending = self.partitions(key.group_id, key.topic).get(key.partition, {})
        for producer_id, (order, committed, _) in pending.items():
            if before is None or order < before:
                pending[producer_id] = PendingOffset(order, committed, is_outdated=True)

    def drop(self, key: OffsetKey) -> None:
        """A tombstone was written: nothing is pending there any more."""
        for producer_id in list(self.partitions(key.group_id, key.topic).get(key.partition, ())):
            self._take(producer_id, key)

    def end(self, producer_id: int) -> list[tuple[OffsetKey, PendingOffset]]:
        """The transaction of a producer ends: what it had pending."""
        return [(key, self._take(producer_id, key)) for key in list(self.producers.get(producer_id, ()))]

    def partitions(self, group_id: str, topic: str) -> PartitionsPending:
        """The partitions of a topic in which something of a group is pending."""
        return self._groups.get(group_id, {}).get(topic, _NOTHING)

    def has_group(self, group_id: str) -> bool:
        """Whether anything is pending in a group."""
        return group_id in self._groups

    def group_ids(self) -> KeysView[str]:
        """The groups in which something is pending."""
        return self._groups.keys()

    def places(self, group_id: str) -> list[tuple[str, int]]:
        """Topic and partition of everything that is pending in a group."""
        return [(topic, partition) for topic, partitions in self._groups.get(group_id, {}).items() for partition in partitions]

    def items(self) -> Iterator[tuple[OffsetKey, CommittedOffset]]:
        """All that is pending."""
        for group_id, topics in self._groups.items():
            for topic, partitions in topics.items():
                for partition, pending in partitions.items():
                    for one in pending.values():
                        yield OffsetKey(group_id, topic, partition), one.committed

    def _take(self, producer_id: int, key: OffsetKey) -> PendingOffset:
        group_id, topic, partition = key
        topics = self._groups[group_id]
        partitions = topics[topic]
        taken = partitions[partition].pop(producer_id)
        if not partitions[partition]:
            del partitions[partition]
            if not partitions:
                del topics[topic]
                if not topics:
                    del self._groups[group_id]
        keys = self.producers[producer_id]
        del keys[key]
        if not keys:
            del self.producers[producer_id]
        return taken
