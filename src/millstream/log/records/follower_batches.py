"""The batches a leader sent to its follower: already stamped, to be written as they are.

A fetch may end inside a batch; that piece is left out. Everything before it has to be whole, with a right CRC and offsets that go up from
the end of the log; otherwise nothing of it is written.
"""

from millstream.buffer import Buffer
from millstream.errors import CorruptMessage
from millstream.wire.batch import HEADER_SIZE, LENGTH_OVERHEAD, MAGIC, BatchHeader, compute_crc, read_header


def split_batches(data: Buffer, *, log_end_offset: int) -> list[BatchHeader]:
    """The headers of the whole batches in `data`, in order."""
    view = memoryview(data)
    headers: list[BatchHeader] = []
    position, next_offset = 0, log_end_offset
    while position <= len(view) - HEADER_SIZE:
        header = read_header(view, position)
        size = header.length + LENGTH_OVERHEAD
        if header.magic != MAGIC or size < HEADER_SIZE:
            raise CorruptMessage(f"no record batch at byte {position} of what the leader sent")
        if position + size > len(view):
            break
        if compute_crc(view[position : position + size]) != header.crc:
            raise CorruptMessage(f"the CRC of the batch at offset {header.base_offset} from the leader does not match its bytes")
        if header.base_offset < next_offset or header.last_offset_delta < 0:
            raise CorruptMessage(f"the leader sent offset {header.base_offset} where {next_offset} or more had to follow")
        headers.append(header)
        next_offset = header.next_offset
        position += size
    return headers
