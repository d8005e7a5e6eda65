"""A piece of a segment file that waits to be sent: what a fetch answers instead of bytes.

It holds the handle, so the file stays open for the send even when retention or truncation has dropped its segment. It never holds the
bytes: they go from the page cache to the socket.
"""

from typing import NamedTuple, final

from millstream.files import FileHandle
from millstream.log.segment import Segment
from millstream.log.segments import Segments
from millstream.wire.batch import HEADER_SIZE


@final
class FileRegion(NamedTuple):
    """`length` bytes of an open file from `position` on."""

    handle: FileHandle
    position: int
    length: int


Stretch = tuple[Segment, int, int, bool]
"""Where a reader finds its batches: in this segment, from this position to that one; and whether it ends with the segment though the reader
may see what is behind, so that it will never be longer."""


def find_region(
    segments: Segments,
    offset: int,
    *,
    max_bytes: int,
    limit_offset: int,
    log_end_offset: int,
    min_one_batch: bool,
    skips_emptied: bool = False,
) -> FileRegion | None:
    """From the batch that holds `offset` to the end of its segment, to `limit_offset` or to `max_bytes`, whichever comes first.

    The first batch is whole. One that is larger than `max_bytes` comes alone where `min_one_batch` says so, and not at all otherwise:
    clients take half of a first batch for one that they will never get whole (Kafka, from Fetch version 3 on). The last one may be cut off.
    """
    segment = segments.active
    if offset >= segment.base_offset and limit_offset >= log_end_offset:
        position, end = segment.find(offset), segment.size_bytes
    else:
        stretch = find_stretch(segments, offset, limit_offset=limit_offset, log_end_offset=log_end_offset, skips_emptied=skips_emptied)
        if stretch is None:
            return None
        segment, position, end, _ = stretch
    length = end - position
    if length > max_bytes:
        first = segment.end_of_batch_at(position) - position
        if first > max_bytes and not min_one_batch:
            return None
        length = max(max_bytes, first)
    return FileRegion(segment.handle(), position, length) if length > 0 else None


def find_stretch(segments: Segments, offset: int, *, limit_offset: int, log_end_offset: int, skips_emptied: bool = False) -> Stretch | None:
    """From the batch that holds `offset` to the end of its segment or to `limit_offset`; None when there is nothing yet.

    `skips_emptied`: the batch without records with which compaction ends a segment is passed over where the reader may see more. Kafka has
    no such batches, and librdkafka takes an answer without records for one that was too small: after ten of them it reports an error.
    """
    number = segments.number_holding(offset)
    segment = segments[number]
    position = segment.find(offset)
    while position >= segment.size_bytes:
        # Compaction may have removed the records up to the next segment.
        number += 1
        if number == len(segments):
            return None
        segment = segments[number]
        position = segment.find(offset)
    if skips_emptied and segment.size_bytes - position == HEADER_SIZE:
        further = _behind_emptied(segments, number, limit_offset=limit_offset)
        if further != number:
            number, segment, position = further, segments[further], 0
    is_last = number + 1 == len(segments)
    segment_end = log_end_offset if is_last else segments[number + 1].base_offset
    is_whole = limit_offset >= segment_end
    end = segment.size_bytes if is_whole else segment.find(limit_offset)
    return segment, position, end, is_whole and not is_last


def _behind_emptied(segments: Segments, number: int, *, limit_offset: int) -> int:
    """Number of the next segment that has records below the limit; the same one if there is none."""
    for further in range(number + 1, len(segments)):
        if segments[further].base_offset >= limit_offset:
            break
        if segments[further].size_bytes > HEADER_SIZE:
            # Its first batch may end behind the limit: what is left of it need not begin where it does.
            return further if segments[further].find(limit_offset) else number
    return number
