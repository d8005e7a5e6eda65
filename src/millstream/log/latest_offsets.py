"""The latest offset of every key in the part of a log that was not compacted yet: what the first pass of compaction makes.

It is bounded: `log.cleaner.dedupe.buffer.size` bytes, counted as what an entry costs in a Python dictionary. When it is full the pass ends
before the batch that does not fit, and what comes after it stays for the next time. At least one batch is always taken, or a log whose
batches are larger than the buffer would never be compacted.
"""

from collections.abc import Mapping

from millstream.log.compaction.batch_cleaning import RecordColumns
from millstream.log.config import LONG_MAX

ENTRY_BYTES = 160
"""A short key or a digest as a bytes object, an int, and a place in a dictionary that is two thirds full; measured."""


class LatestOffsets:
    """Keys with the offset of their latest record, up to `latest_offset`."""

    __slots__ = ("_max_keys", "_offsets", "is_full", "latest_offset")

    def __init__(self, *, first_dirty_offset: int, max_bytes: int) -> None:
        self._offsets: dict[bytes | None, int] = {None: LONG_MAX}
        """A record without a key is never the latest of its key: Kafka drops it, too."""
        self._max_keys = max_bytes // ENTRY_BYTES
        self.latest_offset = first_dirty_offset - 1
        self.is_full = False

    def __len__(self) -> int:
        return len(self._offsets) - 1

    @property
    def by_key(self) -> Mapping[bytes | None, int]:
        """The offsets; no key means that nothing newer is known."""
        return self._offsets

    def add(self, records: RecordColumns, *, from_offset: int) -> bool:
        """Take the records of a batch from `from_offset` on; False if there is no room for them, and nothing was taken."""
        if len(self._offsets) + len(records.keys) > self._max_keys and len(self) > 0:
            self.is_full = True
            return False
        if records.offsets and records.offsets[0] >= from_offset:
            self._offsets.update(zip(records.keys, records.offsets, strict=True))
        else:
            for key, offset in zip(records.keys, records.offsets, strict=True):
                if offset >= from_offset:
                    self._offsets[key] = offset
        self._offsets[None] = LONG_MAX
        return True

    def reach(self, offset: int) -> None:
        """Everything up to this offset was seen."""
        self.latest_offset = max(self.latest_offset, offset)
