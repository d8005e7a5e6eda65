"""A piece of a segment file that waits to be sent: what a fetch answers instead of bytes.

It holds the handle, so the file stays open for the send even when retention or truncation has dropped its segment. It never holds the
bytes: they go from the page cache to the socket.
"""

from typing import NamedTuple

from penstock.files import FileHandle
from penstock.log.segments import Segments


class FileRegion(NamedTuple):
    """`length` bytes of an open file from `position` on."""

    handle: FileHandle
    position: int
    length: int


def find_region(
    segments: Segments, offset: int, *, max_bytes: int, limit_offset: int, log_end_offset: int, min_one_batch: bool
) -> FileRegion | None:
    """From the batch that holds `offset` to the end of its segment, to `limit_offset` or to `max_bytes`, whichever comes first.

    The first batch is whole even if it is larger than `max_bytes`, where `min_one_batch` says so; the last one may be cut off.
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
    segment_end = segments[number + 1].base_offset if number + 1 < len(segments) else log_end_offset
    end = segment.size_bytes if limit_offset >= segment_end else segment.find(limit_offset)
    length = end - position
    if length > max_bytes:
        length = max(max_bytes, segment.end_of_batch_at(position) - position) if min_one_batch else max_bytes
    return FileRegion(segment.handle(), position, length) if length > 0 else None
