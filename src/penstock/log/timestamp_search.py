"""Offsets by time: the first record at or after a timestamp, and the record with the largest one.

The segment is found by its largest timestamp, the batch through the time index and the headers; only in that one batch records are looked
at, because the answer names a record. A batch whose inside cannot be read answers with its first record: a wrong inside is its producer's
own making and harms nobody else.
"""

from typing import NamedTuple

from penstock.errors import KafkaError
from penstock.log.segment import Segment
from penstock.log.segments import Segments
from penstock.wire.batch import BatchHeader


class TimestampedOffset(NamedTuple):
    """A record: its time, its offset, and the leader epoch it was written in."""

    timestamp: int
    offset: int
    leader_epoch: int


def find_timestamp(segments: Segments, timestamp: int, *, log_start_offset: int) -> TimestampedOffset | None:
    """The first record at or after `log_start_offset` whose time is not before `timestamp`."""
    for segment in segments.from_offset(log_start_offset):
        if segment.largest.timestamp < timestamp:
            continue
        start = max(log_start_offset, segment.base_offset + segment.time_index.relative_offset_for(timestamp))
        position = segment.find(start)
        while position < segment.size_bytes:
            header = segment.header_at(position)
            if header.max_timestamp >= timestamp:
                found = _first_record(segment, position, header, timestamp=timestamp, from_offset=log_start_offset)
                if found is not None:
                    return found
            position += header.size_bytes
    return None


def find_largest_timestamp(segments: Segments, *, log_start_offset: int) -> TimestampedOffset | None:
    """The first record that has the largest timestamp of the log."""
    best: Segment | None = None
    for segment in segments.from_offset(log_start_offset):
        if segment.size_bytes and (best is None or segment.largest.timestamp > best.largest.timestamp):
            best = segment
    if best is None or best.largest.timestamp < 0:
        return None
    timestamp, last_offset = best.largest
    position = best.find(max(last_offset, log_start_offset))
    if position >= best.size_bytes:
        return None
    header = best.header_at(position)
    return _first_record(best, position, header, timestamp=min(timestamp, header.max_timestamp), from_offset=log_start_offset)


def _first_record(segment: Segment, position: int, header: BatchHeader, *, timestamp: int, from_offset: int) -> TimestampedOffset | None:
    """The first record of the batch that is neither too old nor before `from_offset`."""
    first = max(header.base_offset, from_offset)
    if header.record_count == 0:
        return None
    is_whole = header.record_count == header.last_offset_delta + 1  # compaction may have taken the first record
    if is_whole and (header.is_log_append_time or header.record_count == 1):
        return TimestampedOffset(header.max_timestamp, first, header.leader_epoch) if first <= header.last_offset else None
    from penstock.wire.records import decode_records  # imported late: a broker that is never asked by time never loads it

    try:
        for record in decode_records(segment.read_batch(position)):
            if record.timestamp >= timestamp and record.offset >= from_offset:
                return TimestampedOffset(record.timestamp, record.offset, header.leader_epoch)
    except KafkaError:
        return TimestampedOffset(header.max_timestamp, first, header.leader_epoch)
    return None
