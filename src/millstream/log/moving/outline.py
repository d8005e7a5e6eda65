"""What a log consists of at one moment, for whoever copies its files in a thread: names and sizes, taken on the loop.

A sealed segment does not change any more, its indexes lie beside it; the active one has so many bytes by now. Meanwhile segments may be
sealed, dropped by retention or cut: a copy made by one outline is compared with the next one.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from millstream.log.config import LONG_MAX
from millstream.log.log import Log
from millstream.log.producer_snapshots import SUFFIX as SNAPSHOT_SUFFIX
from millstream.log.segment import LOG_SUFFIX, SEGMENT_SUFFIXES


class SegmentOutline(NamedTuple):
    """One segment."""

    base_offset: int
    end_offset: int
    """Base offset of the next one; where the log ends, of the last one."""
    size_bytes: int
    is_sealed: bool

    def name(self, suffix: str = LOG_SUFFIX) -> str:
        """The name of its file with this suffix."""
        return f"{self.base_offset:020d}{suffix}"

    @property
    def names(self) -> Iterator[str]:
        """The files it may have that are worth copying, the .log first: the indexes of one that grows are not complete."""
        return map(self.name, SEGMENT_SUFFIXES if self.is_sealed else (LOG_SUFFIX,))


class Outline(NamedTuple):
    """A log as it is now."""

    path: Path
    segments: tuple[SegmentOutline, ...]
    snapshots: tuple[int, ...]
    epochs: bytes
    """The content of the checkpoint of leader epochs."""
    cut_at: int
    """Where it was cut at most since the outline before: from there on nothing that was copied counts."""
    truncation_count: int

    @property
    def size_bytes(self) -> int:
        """Bytes of batches."""
        return sum(segment.size_bytes for segment in self.segments)

    @property
    def snapshot_names(self) -> list[str]:
        """The files of its producer snapshots."""
        return [f"{offset:020d}{SNAPSHOT_SUFFIX}" for offset in self.snapshots]


def outline_of(log: Log) -> Outline:
    """The log as it is now; not while a thread cuts it."""
    assert not log.is_truncating
    cut_at, log.local.lowest_cut = log.local.lowest_cut, LONG_MAX
    segments = list(log.segments)
    ends = [*(segment.base_offset for segment in segments[1:]), log.log_end_offset]
    return Outline(
        log.path,
        tuple(
            SegmentOutline(segment.base_offset, end, segment.size_bytes, segment is not segments[-1])
            for segment, end in zip(segments, ends, strict=True)
        ),
        tuple(log.local.snapshots.offsets),
        log.epochs.render(),
        cut_at,
        log.truncation_count,
    )
