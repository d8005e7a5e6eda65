"""What a merging mirror has copied of each partition that it was assigned, for its status.

The thread that merges notes what the target has, the event loop beside it where the source ends; both come through one lock.
"""

import threading
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

from millstream.topic_partition import TopicPartition


@dataclass(slots=True)
class MergedPartition:
    """One partition. Offsets are those of the source: the target has its own."""

    name: TopicPartition
    confirmed_to: int = -1
    """The target has every record before this offset; -1 while that is not known."""
    source_end: int = -1
    is_paused: bool = False
    copied_offsets: int = 0
    """Records that were merged, and their keys and values in bytes."""
    copied_bytes: int = 0
    last_timestamp: int = -1
    skipped_offsets: int = 0
    error: str | None = None

    @property
    def state(self) -> str:
        """In one word, for people."""
        if self.error is not None:
            return "stopped"
        return "paused" if self.is_paused else "starting" if self.confirmed_to < 0 else "copying"

    @property
    def lag(self) -> int:
        """How many offsets of the source were not merged; -1 while that is not known."""
        return -1 if min(self.source_end, self.confirmed_to) < 0 else max(self.source_end - self.confirmed_to, 0)


@dataclass(slots=True)
class MergedRecords:
    """Records of one partition that went to the target together."""

    next_offset: int = -1
    count: int = 0
    size_bytes: int = 0
    last_timestamp: int = -1


class MergedPartitions:
    """The partitions of one process."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._partitions: dict[TopicPartition, MergedPartition] = {}

    def begin(self, positions: Mapping[TopicPartition, int], *, is_all: bool = False) -> None:
        """These are merged from now on, each from its offset on (-1: it is not known yet); `is_all`: and no others."""
        with self._lock:
            if is_all:
                self._partitions = {name: one for name, one in self._partitions.items() if name in positions}
            for name, offset in positions.items():
                one = self._partitions.setdefault(name, MergedPartition(name))
                one.confirmed_to, one.is_paused, one.error = max(offset, -1), False, None

    def end(self, names: Iterable[TopicPartition]) -> None:
        """Another process merges these."""
        with self._lock:
            for name in names:
                self._partitions.pop(name, None)

    def merged(self, records: Mapping[TopicPartition, MergedRecords]) -> None:
        """The target has these."""
        with self._lock:
            for name, some in records.items():
                one = self._partitions.get(name)
                if one is not None:
                    one.confirmed_to = max(one.confirmed_to, some.next_offset)
                    one.copied_offsets += some.count
                    one.copied_bytes += some.size_bytes
                    one.last_timestamp = max(one.last_timestamp, some.last_timestamp)

    def pause(self, names: Iterable[TopicPartition]) -> None:
        """These are paused, and no others."""
        paused = set(names)
        with self._lock:
            for name, one in self._partitions.items():
                one.is_paused = name in paused

    def skip(self, name: TopicPartition, start: int, end: int) -> None:
        """What was to come next, from `start` up to but not including `end`, is gone at the source."""
        with self._lock:
            one = self._partitions.get(name)
            if one is not None:
                one.skipped_offsets += end - start
                one.confirmed_to = max(one.confirmed_to, end)

    def stop(self, name: TopicPartition, reason: str) -> None:
        """No more of it is merged."""
        with self._lock:
            if name in self._partitions:
                self._partitions[name].error = reason

    def found_ends(self, ends: Mapping[TopicPartition, int]) -> None:
        """The source ends there."""
        with self._lock:
            for name, end in ends.items():
                if name in self._partitions:
                    self._partitions[name].source_end = end

    def now(self) -> list[MergedPartition]:
        """All of them as they are now."""
        with self._lock:
            return [replace(one) for one in self._partitions.values()]
