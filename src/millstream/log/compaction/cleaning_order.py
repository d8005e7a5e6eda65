"""What the broker and its cleaner process send each other: one line of JSON each.

    order    broker to cleaner: which segments of which log to compact, and how
    group    cleaner to broker: neighbouring segments have become one, which waits as `.cleaned` files to be swapped in
    result   cleaner to broker: the log is compacted up to an offset, or why it is not; ends an order

Both sides are ours and of one version: what does not parse is a mistake and raises.
"""

import json
from collections.abc import Iterator
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

if TYPE_CHECKING:
    from millstream.log.transactions.open_transactions import AbortedTransaction


@dataclass(slots=True, frozen=True)
class CleaningOrder:
    """One log to compact."""

    directory: str
    segments: list[tuple[int, int]]
    """Base offset and size of each segment that may be touched, oldest first."""
    end_offset: int
    """Where the last of them ends."""
    first_dirty_offset: int
    now_ms: int
    delete_retention_ms: int
    segment_bytes: int
    segment_index_bytes: int
    index_interval_bytes: int
    producers: list[tuple[int, int, int]] = field(default_factory=list)
    """Producer id, last offset (-1 if the log has only markers of it) and epoch of each producer that the log remembers."""
    aborted_behind: list["AbortedTransaction"] = field(default_factory=list)
    """Aborted transactions with records in these segments whose marker lies behind them."""
    dedupe_buffer_bytes: int = 128 << 20
    io_buffer_bytes: int = 512 << 10
    bytes_per_second: float = float("inf")

    @property
    def path(self) -> Path:
        """The directory of the log."""
        return Path(self.directory)

    def bounded_segments(self) -> Iterator[tuple[int, int, int]]:
        """Base offset, end offset and size of each segment."""
        for number, (base_offset, size) in enumerate(self.segments, 1):
            yield base_offset, self.segments[number][0] if number < len(self.segments) else self.end_offset, size

    def to_line(self) -> bytes:
        """As it is sent."""
        return _line(asdict(self))

    @classmethod
    def from_line(cls, line: bytes) -> Self:
        """As it was sent."""
        from millstream.log.transactions.open_transactions import AbortedTransaction  # a broker starts sooner without it

        fields = json.loads(line)
        fields["segments"] = [tuple(pair) for pair in fields["segments"]]
        fields["producers"] = [tuple(one) for one in fields["producers"]]
        fields["aborted_behind"] = [AbortedTransaction._make(one) for one in fields["aborted_behind"]]
        return cls(**fields)


@dataclass(slots=True, frozen=True)
class CleanedGroup:
    """Segments that have become one."""

    base_offsets: list[int]
    """Of the old segments; the first is that of the new one, too."""
    size_bytes: int
    """Of the new one."""


@dataclass(slots=True)
class CleaningResult:
    """How an order ended, and what was done on the way."""

    end_offset: int
    """Everything below is compacted."""
    error: str | None = None
    is_temporary: bool = False
    """Whether it makes sense to try again: the files changed meanwhile, or the disk is full."""
    key_count: int = 0
    bytes_read: int = 0
    bytes_before: int = 0
    bytes_after: int = 0
    records_before: int = 0
    records_after: int = 0
    seconds: float = 0.0
    broken: list[str] = field(default_factory=list)
    """Batches that could not be read and were kept as they are; only the first few."""
    broken_count: int = 0


def answer_line(answer: CleanedGroup | CleaningResult) -> bytes:
    """An answer as it is sent."""
    return _line({"kind": "group" if isinstance(answer, CleanedGroup) else "result"} | asdict(answer))


def answer_from_line(line: bytes) -> CleanedGroup | CleaningResult:
    """An answer as it was sent."""
    fields = json.loads(line)
    return CleanedGroup(**fields) if fields.pop("kind") == "group" else CleaningResult(**fields)


def _line(fields: dict[str, Any]) -> bytes:
    return json.dumps(fields, separators=(",", ":")).encode() + b"\n"
