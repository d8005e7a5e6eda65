"""Reading segments batch by batch: to repair them after a crash, to rebuild indexes, to learn producers and epochs again.

After a crash a segment that may hold unsynced data is read whole. A batch counts if its header makes sense, its offsets go on where the
last one ended, all its bytes are there and its CRC is right; at the first that does not, the segment is cut. Indexes are rebuilt on the
way, leader epochs, producer sequences and transactions are learned from the batches.

Reads are chunks of a few MiB; the loop over batches does as little as it can, because it may run over gigabytes.
"""

import logging
from collections.abc import Callable, Iterator

from millstream.errors import CorruptMessage
from millstream.files import Files
from millstream.log.leader_epochs import LeaderEpochs
from millstream.log.producer_state import ProducerState
from millstream.log.segment import MAX_RELATIVE_OFFSET, Segment
from millstream.wire.batch import CRC_START, HEADER, HEADER_SIZE, LENGTH_OVERHEAD, MAGIC, NO_TIMESTAMP, BatchHeader, read_header
from millstream.wire.crc32c import crc32c

CHUNK_BYTES = 4 << 20

_logger = logging.getLogger(__name__)
_MIN_LENGTH = HEADER_SIZE - LENGTH_OVERHEAD


def batches(
    files: Files, segment: Segment, *, position: int = 0, chunk_bytes: int = CHUNK_BYTES
) -> Iterator[tuple[int, BatchHeader, memoryview]]:
    """Position, header and bytes of each batch from `position` on; ends at the end or where the sizes stop making sense."""
    handle = segment.handle()
    end = segment.size_bytes
    while position <= end - HEADER_SIZE:
        chunk = memoryview(files.pread(handle, min(max(chunk_bytes, HEADER_SIZE), end - position), position))
        at = 0
        while at <= len(chunk) - HEADER_SIZE:
            header = read_header(chunk, at)
            size = header.length + LENGTH_OVERHEAD
            if size < HEADER_SIZE or header.magic != MAGIC or position + at + size > end:
                return
            if at + size > len(chunk):
                break
            yield position + at, header, chunk[at : at + size]
            at += size
        position += at
        if at == 0:
            # One batch is larger than a chunk.
            if len(chunk) < HEADER_SIZE or size <= len(chunk):
                return
            whole = memoryview(files.pread(handle, size, position))
            if len(whole) < size:
                return
            yield position, header, whole
            position += size


def recover_segment(files: Files, segment: Segment, *, epochs: LeaderEpochs, producers: ProducerState) -> int:
    """Cut the segment at its first bad batch, rebuild its indexes, learn epochs and producers; the offset after its last record."""
    segment.forget_indexes()
    scan = _Scan(segment, epochs, producers)
    handle, end = segment.handle(), segment.size_bytes
    wanted = CHUNK_BYTES
    while scan.position < end and not scan.is_damaged:
        chunk = files.pread(handle, min(wanted, end - scan.position), scan.position)
        before = scan.position
        scan.take(chunk)
        if scan.position == before:
            # Either the batch is larger than the chunk, or it does not end within the file.
            wanted = max(CHUNK_BYTES, scan.missing)
            scan.is_damaged |= len(chunk) >= scan.missing or before + scan.missing > end
    if scan.position < end:
        segment.cut(scan.position)
        # Or else another crash could put good batches from behind the bad one after what is written next.
        files.fsync(segment.handle())
    return scan.next_offset


class _Scan:
    """How far the recovery of one segment has come."""

    __slots__ = ("_epochs", "_producers", "_segment", "is_damaged", "missing", "next_offset", "position")

    def __init__(self, segment: Segment, epochs: LeaderEpochs, producers: ProducerState) -> None:
        self._segment = segment
        self._epochs = epochs
        self._producers = producers
        self.position = 0
        self.next_offset = segment.base_offset
        self.is_damaged = False
        self.missing = HEADER_SIZE
        """Size of the batch at `position`, if the chunk ended before it did."""

    def take(self, chunk: bytes) -> None:
        """Go through the whole, good batches of the chunk, which starts at `position`. Written out flat: it runs over gigabytes."""
        view = memoryview(chunk)
        account, largest = self._segment.account, self._segment.base_offset + MAX_RELATIVE_OFFSET
        start, at, length_of_chunk = self.position, 0, len(chunk)
        next_offset, latest_epoch = self.next_offset, self._epochs.latest
        self.missing = HEADER_SIZE
        while at + HEADER_SIZE <= length_of_chunk:
            base_offset, length, epoch, magic, crc, _, delta, _, timestamp, producer_id, _, _, count = HEADER.unpack_from(chunk, at)
            stop = at + length + LENGTH_OVERHEAD
            last_offset = base_offset + delta
            if magic != MAGIC or length < _MIN_LENGTH or base_offset < next_offset or delta < 0 or last_offset > largest:
                self.is_damaged = True
                break
            if stop > length_of_chunk:
                self.missing = stop - at
                break
            if crc32c(view[at + CRC_START : stop]) != crc:
                self.is_damaged = True
                break
            account(start + at, size=stop - at, last_offset=last_offset, max_timestamp=timestamp if count else NO_TIMESTAMP)
            if epoch > latest_epoch:
                self._epochs.assign(epoch, base_offset)
                latest_epoch = epoch
            if producer_id >= 0:
                aborted = self._producers.learn(read_header(chunk, at), view[at:stop], base_offset=base_offset)
                if aborted is not None:
                    self._segment.add_aborted(aborted)
            next_offset = last_offset + 1
            at = stop
        self.next_offset = next_offset
        self.position = start + at


def rebuild_indexes(files: Files, segment: Segment, producers_before: Callable[[], ProducerState]) -> None:
    """Make the indexes of a sealed segment anew, from its batches, and sync them; the segment itself is left as it is.

    `producers_before` says what was known of producers, and of their transactions, where the segment begins; only asked if it ends any.
    """
    segment.forget_indexes()
    has_markers = False
    next_offset, largest = segment.base_offset, segment.base_offset + MAX_RELATIVE_OFFSET
    for position, header, batch in batches(files, segment):
        if header.base_offset < next_offset or not header.base_offset <= header.last_offset <= largest:
            _logger.warning("%s is damaged: the batch at position %d has a wrong offset and is not indexed", segment.path(), position)
            continue
        next_offset = header.next_offset
        segment.account(position, size=len(batch), last_offset=header.last_offset, max_timestamp=header.index_timestamp)
        has_markers |= header.is_control and header.is_transactional
    if has_markers:
        _find_aborted(files, segment, producers_before())
    segment.seal()
    for handle in segment.write_indexes():
        files.fsync(handle)
    segment.release()


def _find_aborted(files: Files, segment: Segment, producers: ProducerState) -> None:
    """Fill the index of aborted transactions."""
    for _, header, batch in batches(files, segment):
        aborted = producers.learn(header, batch, base_offset=header.base_offset) if header.producer_id >= 0 else None
        if aborted is not None:
            segment.add_aborted(aborted)


def replay_producers(files: Files, segment: Segment, producers: ProducerState, *, from_offset: int, to_offset: int) -> None:
    """Learn producers from the batches in [from_offset, to_offset)."""
    try:
        position = segment.find(from_offset)
    except CorruptMessage as error:
        _logger.warning("producers of %s are not known: %s", segment.path(), error)
        return
    for _, header, batch in batches(files, segment, position=position):
        if header.base_offset >= to_offset:
            return
        if header.producer_id >= 0 and header.base_offset >= from_offset:
            producers.learn(header, batch, base_offset=header.base_offset)


def replay_epochs(files: Files, segment: Segment, epochs: LeaderEpochs) -> None:
    """Learn leader epochs from the headers of a whole segment."""
    for _, header, _ in batches(files, segment):
        if header.leader_epoch > epochs.latest:
            epochs.assign(header.leader_epoch, header.base_offset)


def end_of(files: Files, segment: Segment, *, is_indexed: bool = True) -> int | None:
    """The offset after the last record of a segment that was closed cleanly; None if its end makes no sense after all."""
    if segment.size_bytes == 0:
        return segment.base_offset
    start = 0
    if is_indexed:
        index = segment.offset_index
        start = index.entry(len(index) - 1)[1] if len(index) else 0
    if start >= segment.size_bytes:
        return None
    next_offset, valid = segment.base_offset, start
    for position, header, batch in batches(files, segment, position=start):
        next_offset, valid = header.next_offset, position + len(batch)
    return next_offset if valid == segment.size_bytes else None
