"""What a Fetch brought for one partition, seen from its batch headers: how much of it is whole, which offsets it has, where to go on.

Pure, and the only loop of the mirror that runs over batches: some numbers of each header, nothing inside.
"""

from collections.abc import Iterator
from typing import Final, NamedTuple

from millstream.mirror.trouble import Stopped
from millstream.wire.batch import CONTROL, HEADER_SIZE, HEADER_TO_LAST_OFFSET, LENGTH_OVERHEAD, MAGIC, read_header

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


def whole_batches(records: memoryview, position: int) -> CopiedBatches | None:
    """The whole batches from `position` on; None if there is none. A fetch may begin with older ones, and end inside one."""
    start = end = last = 0
    epoch = -1
    ranges: list[tuple[int, int]] = []
    markers: list[tuple[int, int]] = []
    size, unpack = len(records), HEADER_TO_LAST_OFFSET.unpack_from
    while end + HEADER_SIZE <= size:
        base_offset, length, leader_epoch, magic, _, attributes, delta = unpack(records, end)
        following = end + length + LENGTH_OVERHEAD
        if magic != MAGIC or length < _SMALLEST or delta < 0:
            raise Stopped(f"the source sent a batch of format {magic} at offset {base_offset}; only format {MAGIC} can be mirrored")
        if following > size:
            break
        next_offset = base_offset + delta + 1
        if not ranges and next_offset <= position:
            start = following
        elif base_offset < position:
            raise Stopped(f"the source has a batch of the offsets {base_offset} to {next_offset - 1}, and the target ends at {position}")
        else:
            if ranges and ranges[-1][1] == base_offset:
                ranges[-1] = (ranges[-1][0], next_offset)
            else:
                ranges.append((base_offset, next_offset))
            if attributes & CONTROL:
                markers.append((base_offset, next_offset))
            position, epoch, last = next_offset, leader_epoch, end
        end = following
    if not ranges:
        return None
    return CopiedBatches(records[start:end], tuple(ranges), tuple(markers), epoch, read_header(records, last).max_timestamp)
