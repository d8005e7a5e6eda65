"""A log whose batches come from a mirror: they keep their offsets and all that the CRC covers, only the leader epoch is this log's own.

Acts on a log from outside. Offsets may be missing between batches, as compaction or retention left them at the source, and a log without
records begins where the first batch does. Producers and transactions are learned from the batches, without a look at their sequences: the
source has checked them.

When the mirroring ends, what the source had not decided yet never will be: `abort_open_transactions` writes the markers.
"""

import struct
from typing import Final

from millstream.buffer import Buffer
from millstream.log.log import Log
from millstream.log.producer_state import ProducerEntry
from millstream.log.records.batch_check import check_copied_batches
from millstream.wire.batch import CONTROL, TRANSACTIONAL, BatchHeader, read_header
from millstream.wire.records import ProducerStamp, Record, encode_batch

_ABORT: Final = struct.pack(">hh", 0, 0)
"""Version and type: the key of a marker."""
_MARKER_VALUE: Final = struct.Struct(">hi")
"""Version and coordinator epoch."""


def append_mirrored(log: Log, batches: Buffer, *, leader_epoch: int, now_ms: int) -> list[BatchHeader]:
    """Write the whole batches at the end of the log; their headers. CorruptMessage, and nothing is written, if they do not follow it."""
    log.check_usable()
    headers = check_copied_batches(batches, log_end_offset=log.log_end_offset, sender="mirror")
    if headers and not log.size_bytes and log.log_end_offset < headers[0].base_offset:
        log.roll_to(headers[0].base_offset, now_ms=now_ms)
    log.append_copied(headers, batches, now_ms=now_ms, leader_epoch=leader_epoch)
    return headers


def abort_open_transactions(log: Log, *, leader_epoch: int, now_ms: int) -> int:
    """Write an abort marker for each transaction that is open; how many there were."""
    log.check_usable()
    undecided = [entry for entry in log.producers if entry.transaction_first_offset >= 0]
    for entry in undecided:
        marker = _abort_marker(entry, offset=log.log_end_offset, now_ms=now_ms)
        log.append_copied([read_header(marker)], marker, now_ms=now_ms, leader_epoch=leader_epoch)
    return len(undecided)


def highest_producer_id(log: Log) -> int:
    """The largest id of a producer that the log knows; -1 if it knows none."""
    return max((entry.producer_id for entry in log.producers), default=-1)


def _abort_marker(entry: ProducerEntry, *, offset: int, now_ms: int) -> bytes:
    record = Record(offset, now_ms, _ABORT, _MARKER_VALUE.pack(0, max(entry.coordinator_epoch, 0)))
    return encode_batch([record], producer=ProducerStamp(entry.producer_id, entry.epoch), flags=CONTROL | TRANSACTIONAL)
