"""A log whose batches come from a mirror: they keep their offsets and all that the CRC covers, only the leader epoch is this log's own.

Acts on a log from outside. Offsets may be missing between batches, as compaction or retention left them at the source, and a log without
records begins where the first batch does. Producers and transactions are learned from the batches, without a look at their sequences: the
source has checked them.

When the mirroring ends (`end_mirroring`), what the source had not decided yet never will be, so open transactions are aborted. Then the log
forgets the producers of the source: both clusters counted their ids from 0, and a producer of this one that has the id, epoch and sequence
of a mirrored batch would have its records taken for a repetition, acknowledged and dropped. What says so is a batch of the log, so that
followers and recovery forget them at the same place:

    attributes control, without transactional | producer id 2^63 - 1, epoch 0 | one record: key and value of a commit marker

Clients step over it, as over any control batch.
"""

from typing import Final

from millstream.buffer import Buffer
from millstream.log.log import Log
from millstream.log.producer_state import END_OF_PRODUCERS, ProducerEntry
from millstream.log.records.batch_check import check_copied_batches
from millstream.log.transactions.marker import Marker, encode_marker, marker_record
from millstream.wire.batch import CONTROL, BatchHeader, read_header
from millstream.wire.records import ProducerStamp, encode_batch

MAX_ABORTED: Final = 200
"""Transactions that are aborted at once, so that others do not wait for it."""


def append_mirrored(log: Log, batches: Buffer, *, leader_epoch: int, now_ms: int) -> list[BatchHeader]:
    """Write the whole batches at the end of the log; their headers. CorruptMessage, and nothing is written, if they do not follow it."""
    log.check_usable()
    headers = check_copied_batches(batches, log_end_offset=log.log_end_offset, sender="mirror")
    if headers and not log.size_bytes and log.log_end_offset < headers[0].base_offset:
        log.roll_to(headers[0].base_offset, now_ms=now_ms)
    log.append_copied(headers, batches, now_ms=now_ms, leader_epoch=leader_epoch)
    return headers


def end_mirroring(log: Log, *, leader_epoch: int, now_ms: int) -> bool:
    """Abort what is open and forget the producers of the source; False if there is more to abort, and this has to be called again."""
    log.check_usable()
    undecided = [entry for entry in log.producers if entry.transaction_first_offset >= 0]
    for entry in undecided[:MAX_ABORTED]:
        _append_control(log, _marker(log, entry, now_ms=now_ms), leader_epoch=leader_epoch, now_ms=now_ms)
    if len(undecided) > MAX_ABORTED:
        return False
    if len(log.producers):
        _append_control(log, _end_of_producers(log, now_ms=now_ms), leader_epoch=leader_epoch, now_ms=now_ms)
    return True


def highest_producer_id(log: Log) -> int:
    """The largest id of a producer that the log knows; -1 if it knows none."""
    return max((entry.producer_id for entry in log.producers), default=-1)


def _append_control(log: Log, batch: bytes, *, leader_epoch: int, now_ms: int) -> None:
    log.append_copied([read_header(batch)], batch, now_ms=now_ms, leader_epoch=leader_epoch)


def _marker(log: Log, entry: ProducerEntry, *, now_ms: int) -> bytes:
    """Aborts the transaction of a producer."""
    marker = Marker(is_commit=False, coordinator_epoch=max(entry.coordinator_epoch, 0))
    return encode_marker(marker, ProducerStamp(entry.producer_id, entry.epoch), timestamp=now_ms, offset=log.log_end_offset)


def _end_of_producers(log: Log, *, now_ms: int) -> bytes:
    """Says that all producers before it are to be forgotten."""
    record = marker_record(Marker(is_commit=True, coordinator_epoch=0), offset=log.log_end_offset, timestamp=now_ms)
    return encode_batch([record], producer=ProducerStamp(END_OF_PRODUCERS, 0), flags=CONTROL)
