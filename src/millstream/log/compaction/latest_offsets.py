"""The latest offset of every key in the dirty part of a log: what the first pass of compaction makes (Kafka's offset map).

In the dirty part a record stays if its offset is the latest of its key, so the offsets that are left at the end of the pass are those of
the records that stay, and the second pass need not look at keys again: a batch in whose range none of them lies loses all its records.
Batches whose keys do not count, those of aborted transactions and those that cannot be read, are remembered and looked at.
"""

from bisect import bisect_left, bisect_right
from collections.abc import Mapping, Sequence
from typing import Final

from millstream.log.compaction.batch_cleaning import BatchKeys
from millstream.log.config import LONG_MAX
from millstream.wire.batch import BatchHeader

ENTRY_BYTES: Final = 168
"""A short key or a digest as a bytes object, an int, a place in a dictionary that is two thirds full and one in a list; measured."""
MAX_REMEMBERED: Final = 100_000
"""Batches whose keys do not count, and those with tombstones; of more of them it is not remembered which they were."""


class LatestOffsets:
    """The latest offset of every key, up to `latest_offset`.

    It is bounded: `log.cleaner.dedupe.buffer.size` bytes, counted as what an entry costs in a Python dictionary. When it is full the pass
    ends before the batch that does not fit, and what comes after it stays for the next time. At least one batch is always taken, or a log
    whose batches are larger than the buffer would never be compacted.
    """

    __slots__ = ("_first_dirty_offset", "_kept", "_left_out", "_max_keys", "_offsets", "_with_tombstones", "is_full", "latest_offset")

    def __init__(self, *, first_dirty_offset: int, max_bytes: int) -> None:
        self._first_dirty_offset = first_dirty_offset
        self._offsets: dict[bytes | None, int] = {None: LONG_MAX}
        """A record without a key is never the latest of its key: Kafka drops it, too."""
        self._max_keys = max_bytes // ENTRY_BYTES
        self._left_out: set[int] | None = set()
        """Base offsets; None if there are too many of them."""
        self._with_tombstones: set[int] | None = set()
        """Likewise."""
        self._kept: list[int] = []
        """The offsets of all keys in order, once no more are added."""
        self.latest_offset = first_dirty_offset - 1
        self.is_full = False

    def __len__(self) -> int:
        return len(self._offsets) - 1

    @property
    def by_key(self) -> Mapping[bytes | None, int]:
        """The offsets; no key means that nothing newer is known."""
        return self._offsets

    def add(self, header: BatchHeader, batch: BatchKeys) -> bool:
        """Take the latest offset of each key of a batch, in the dirty part; False if there is no room for them, and nothing was taken."""
        keys, offsets, has_tombstones = batch
        if not self._has_room(keys):
            self.is_full = True
            return False
        first = 0 if header.base_offset >= self._first_dirty_offset else bisect_left(offsets, self._first_dirty_offset)
        self._offsets.update(zip(keys[first:], offsets[first:], strict=True))
        self._offsets[None] = LONG_MAX
        if has_tombstones:
            self._with_tombstones = _remembered(self._with_tombstones, header)
        self.latest_offset = max(self.latest_offset, header.last_offset)
        return True

    def _has_room(self, keys: Sequence[bytes | None]) -> bool:
        room = self._max_keys - len(self._offsets)
        return len(keys) <= room or len(self) == 0 or len(set(keys)) <= room

    def leave_out(self, header: BatchHeader) -> None:
        """The keys of a batch do not count, but it was seen."""
        self.latest_offset = max(self.latest_offset, header.last_offset)
        self._left_out = _remembered(self._left_out, header)

    def reach(self, offset: int) -> None:
        """Everything up to this offset was seen."""
        self.latest_offset = max(self.latest_offset, offset)

    def complete(self) -> None:
        """All of the dirty part that there is room for was seen."""
        self._kept = sorted(self._offsets.values())

    def latest_in(self, header: BatchHeader) -> Sequence[int] | None:
        """The offsets of the records of a batch that are the latest of their keys; None if it takes a look into the batch to know."""
        base_offset, last_offset = header.base_offset, header.last_offset
        if base_offset < self._first_dirty_offset or last_offset > self.latest_offset:
            return None
        if self._left_out is None or base_offset in self._left_out:
            return None
        first = bisect_left(self._kept, base_offset)
        return self._kept[first : bisect_right(self._kept, last_offset, lo=first)]

    def has_tombstones(self, header: BatchHeader) -> bool:
        """Whether a batch that was added has records without a value, or that is not known any more."""
        return self._with_tombstones is None or header.base_offset in self._with_tombstones


def _remembered(base_offsets: set[int] | None, header: BatchHeader) -> set[int] | None:
    if base_offsets is not None:
        base_offsets.add(header.base_offset)
    return base_offsets if base_offsets is None or len(base_offsets) <= MAX_REMEMBERED else None
