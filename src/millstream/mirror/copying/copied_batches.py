"""What a Fetch brought for one partition, seen from its batch headers: how much of it is whole, which offsets it has, where to go on.

Pure, and the only loop of the mirror that runs over batches: some numbers of each header, nothing inside.
"""

from collections.abc import Iterator
from typing import Final, NamedTuple

from millstream.mirror.trouble import Stopped
from millstream.wire.batch import CONTROL, HEADER_SIZE, HEADER_TO_LAST_OFFSET, LENGTH_OVERHEAD, MAGIC, read_header

MAX_BATCHES: Final = 1000
"""In one piece: so many small ones take the target some milliseconds."""
_SMALLEST: Final = HEADER_SIZE - LENGTH_OVERHEAD


class CopiedBatches(NamedTuple):
    """Whole batches of one partition, one after the other."""

    records: memoryview
    ranges: tuple[tuple[int, int], ...]
    """Their offsets: from the first to the one after the last, a range more for each gap between them."""
    markers: tuple[tuple[int, int], ...]
    """Those of them that are transaction markers, and not messages."""
    leader_epoch: int
    """Of the last batch, at the source."""
    max_timestamp: int
    """Of the last batch."""
    batch_count: int = 1

    @property
    def first_offset(self) -> int:
        """Where they begin."""
        return self.ranges[0][0]

    @property
    def next_offset(self) -> int:
        """What comes after them."""
        return self.ranges[-1][1]

    @property
    def messages(self) -> Iterator[tuple[int, int]]:
        """The offsets without the markers, as ranges."""
        markers = iter((*self.markers, (self.next_offset, self.next_offset)))
        begin, end = next(markers)
        for position, stop in self.ranges:
            start = position
            while begin < stop:
                if start < begin:
                    yield start, begin
                start, (begin, end) = end, next(markers)
            if start < stop:
                yield start, stop

    @property
    def offset_count(self) -> int:
        """How many offsets they have."""
        return sum(end - start for start, end in self.ranges)


def whole_batches(records: memoryview, position: int, *, target_end: int | None = None) -> list[CopiedBatches]:
    """The whole batches from `position` on, in pieces. A fetch may begin with older ones, and end inside one.

    A source that begins inside a batch (DeleteRecords) sends all of it: it is taken, if it does not begin before `target_end`.
    """
    target_end = position if target_end is None else target_end
    pieces: list[CopiedBatches] = []
    piece = _Piece()
    end = 0
    size, unpack = len(records), HEADER_TO_LAST_OFFSET.unpack_from
    while end + HEADER_SIZE <= size:
        base_offset, length, leader_epoch, magic, _, attributes, delta = unpack(records, end)
        following = end + length + LENGTH_OVERHEAD
        if magic != MAGIC or length < _SMALLEST or delta < 0:
            raise Stopped(f"the source sent a batch of format {magic} at offset {base_offset}; only format {MAGIC} can be mirrored")
        if following > size:
            break
        next_offset = base_offset + delta + 1
        if base_offset >= position or (next_offset > position and base_offset >= target_end):
            piece.add(end, base_offset, next_offset, is_marker=bool(attributes & CONTROL))
            position, piece.leader_epoch = next_offset, leader_epoch
            if piece.batch_count == MAX_BATCHES:
                pieces.append(piece.cut(records, following))
                piece = _Piece()
        elif next_offset > position:
            raise Stopped(f"the source has a batch of the offsets {base_offset} to {next_offset - 1}, and the target ends at {target_end}")
        end = following
    if piece.batch_count:
        pieces.append(piece.cut(records, end))
    return pieces


class _Piece:
    """Batches that go together, while they are looked at."""

    __slots__ = ("_last", "_markers", "_ranges", "_start", "batch_count", "leader_epoch")

    def __init__(self) -> None:
        self.batch_count = 0
        self.leader_epoch = -1
        self._start = self._last = 0
        self._ranges: list[tuple[int, int]] = []
        self._markers: list[tuple[int, int]] = []

    def add(self, place: int, base_offset: int, next_offset: int, *, is_marker: bool) -> None:
        ranges = self._ranges
        if ranges and ranges[-1][1] == base_offset:
            ranges[-1] = (ranges[-1][0], next_offset)
        else:
            ranges.append((base_offset, next_offset))
        if is_marker:
            self._markers.append((base_offset, next_offset))
        if not self.batch_count:
            self._start = place
        self._last = place
        self.batch_count += 1

    def cut(self, records: memoryview, end: int) -> CopiedBatches:
        timestamp = read_header(records, self._last).max_timestamp
        own = records[self._start : end]
        return CopiedBatches(own, tuple(self._ranges), tuple(self._markers), self.leader_epoch, timestamp, self.batch_count)
