"""What compaction leaves of one batch. Pure; the rules are those of Kafka's `Cleaner` for batches of format 2.

A record stays if no later record of its key is known. One without a value (a tombstone) deletes its key: it stays for `delete.retention.ms`
from the first time it is compacted, so that readers can see it. That time, the *delete horizon*, is kept in the batch: attribute bit 6 says
that the base timestamp is one (KIP-534). A record without a key goes.

A batch keeps its base offset, its last offset, its sequence numbers, its codec and the times of its records; only its records get fewer.
One that has none left goes, unless it has to stay, empty: the last batch of a producer that the log remembers (its sequence would be
forgotten otherwise), and the last batch of a segment (the segment would end too early otherwise). Control batches are not touched.

Records are copied as they are, so their deltas stay right; only setting a horizon writes the timestamp deltas anew.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from struct import Struct

from millstream.buffer import Buffer
from millstream.errors import CorruptMessage, InvalidRecord
from millstream.log.config import LONG_MAX
from millstream.log.records.record_walk import WalkedRecords, walk_records
from millstream.wire.batch import (
    CODEC_MASK,
    CRC_START,
    DELETE_HORIZON,
    HEADER_SIZE,
    LENGTH_OVERHEAD,
    MAGIC,
    NO_TIMESTAMP,
    BatchHeader,
    compute_crc,
)
from millstream.wire.compression import codec_of, compress, decompress
from millstream.wire.crc32c import crc32c
from millstream.wire.primitives import zigzag_varint

_BEFORE_CRC = Struct(">qiibI")
_AFTER_CRC = Struct(">hiqqqhii")
_AFTER_CRC_FIELD = 5


@dataclass(slots=True, frozen=True)
class CleaningRules:
    """What decides about records in one round of compaction."""

    latest: Mapping[bytes | None, int]
    """Per key the offset of its latest record."""
    latest_offset: int
    """Up to here `latest` speaks; later records stay."""
    now_ms: int
    delete_retention_ms: int
    last_offsets: Mapping[int, int]
    """Per producer id the last offset of its last batch."""


class CleanedBatch:
    """What is left of a batch: bytes to write (None: nothing), and what indexes want to know of them."""

    __slots__ = ("content", "max_timestamp", "record_count")

    def __init__(self, content: Buffer | None, record_count: int, max_timestamp: int) -> None:
        self.content = content
        self.record_count = record_count
        self.max_timestamp = max_timestamp if record_count else NO_TIMESTAMP


def open_batch(header: BatchHeader, batch: memoryview) -> tuple[bytes, WalkedRecords]:
    """The decompressed records of a batch and what they are; CorruptMessage or another KafkaError if its inside is broken."""
    if compute_crc(batch) != header.crc:
        raise CorruptMessage(f"the CRC of the batch at offset {header.base_offset} does not match its bytes")
    payload = bytes(decompress(batch[HEADER_SIZE:], codec_of(header.codec)))
    return payload, walk_records(payload, header.record_count, last_offset_delta=header.last_offset_delta)


def clean_batch(header: BatchHeader, batch: memoryview, rules: CleaningRules, *, is_last: bool) -> CleanedBatch:
    """The batch without the records that compaction drops; raises what `open_batch` raises, and where times do not fit 64 bits."""
    if header.is_control:
        return CleanedBatch(batch, header.record_count, header.max_timestamp)
    payload, records = open_batch(header, batch)
    kept = _kept_records(header, records, rules)
    if not kept:
        must_stay = is_last or (header.producer_id >= 0 and rules.last_offsets.get(header.producer_id) == header.last_offset)
        return CleanedBatch(_emptied(header, batch) if must_stay else None, 0, NO_TIMESTAMP)
    needs_horizon = bool(records.tombstones) and not header.attributes & DELETE_HORIZON and not set(kept).isdisjoint(records.tombstones)
    if needs_horizon:
        return _with_horizon(header, payload, records, kept, horizon_ms=min(rules.now_ms + rules.delete_retention_ms, LONG_MAX))
    if len(kept) == header.record_count:
        return CleanedBatch(batch, header.record_count, header.max_timestamp)
    ends = records.ends
    body = b"".join([payload[ends[number - 1] if number else 0 : ends[number]] for number in kept])
    return _rebuilt(header, records, kept, body)


def _kept_records(header: BatchHeader, records: WalkedRecords, rules: CleaningRules) -> list[int]:
    """Numbers of the records that stay."""
    latest_of, base_offset, count = rules.latest.get, header.base_offset, len(records.keys)
    if header.last_offset <= rules.latest_offset:
        offsets = map(base_offset.__add__, records.offset_deltas)
        kept = [number for number, key, offset in zip(range(count), records.keys, offsets, strict=True) if latest_of(key, -1) <= offset]
    else:
        kept = [
            number
            for number, (key, delta) in enumerate(zip(records.keys, records.offset_deltas, strict=True))
            if base_offset + delta > rules.latest_offset or latest_of(key, -1) <= base_offset + delta
        ]
    has_horizon_passed = header.attributes & DELETE_HORIZON and header.base_timestamp <= rules.now_ms
    if has_horizon_passed and records.tombstones:
        # Not those beyond `latest_offset`: older values of their keys may still be there.
        dead = {number for number in records.tombstones if base_offset + records.offset_deltas[number] <= rules.latest_offset}
        kept = [number for number in kept if number not in dead]
    return kept


def _rebuilt(header: BatchHeader, records: WalkedRecords, kept: list[int], body: bytes, *, horizon_ms: int | None = None) -> CleanedBatch:
    """A batch of the records in `body`; the largest time is that of the records that are left."""
    max_timestamp = header.max_timestamp
    if not header.is_log_append_time:
        times = records.timestamp_deltas
        max_timestamp = header.base_timestamp + max((times[number] >> 1) ^ -(times[number] & 1) for number in kept)
        if not -LONG_MAX <= max_timestamp <= LONG_MAX:
            raise InvalidRecord(f"a record of the batch at offset {header.base_offset} has the time {max_timestamp}")
    attributes = header.attributes if horizon_ms is None else header.attributes | DELETE_HORIZON
    base_timestamp = header.base_timestamp if horizon_ms is None else horizon_ms
    changed = header._replace(attributes=attributes, base_timestamp=base_timestamp, max_timestamp=max_timestamp, record_count=len(kept))
    return CleanedBatch(_assembled(changed, compress(body, codec_of(header.codec))), len(kept), max_timestamp)


def _with_horizon(header: BatchHeader, payload: bytes, records: WalkedRecords, kept: list[int], *, horizon_ms: int) -> CleanedBatch:
    """The batch with its tombstones' last day in the base timestamp, from which the times of its records count now."""
    shift = header.base_timestamp - horizon_ms
    parts: list[bytes] = []
    for number in kept:
        start = records.ends[number - 1] if number else 0
        old = records.timestamp_deltas[number]
        # Size, attributes, timestamp delta; what follows is copied.
        start = _after_varint(payload, start)
        attributes = payload[start : start + 1]
        rest = payload[_after_varint(payload, start + 1) : records.ends[number]]
        record = attributes + zigzag_varint(((old >> 1) ^ -(old & 1)) + shift) + rest
        parts += (zigzag_varint(len(record)), record)
    return _rebuilt(header, records, kept, b"".join(parts), horizon_ms=horizon_ms)


def _emptied(header: BatchHeader, batch: memoryview) -> Buffer:
    """The batch without records, as Kafka writes it: uncompressed, without a base timestamp."""
    if header.record_count == 0:
        return batch
    attributes = header.attributes & ~(CODEC_MASK | DELETE_HORIZON)
    return _assembled(header._replace(attributes=attributes, base_timestamp=NO_TIMESTAMP, record_count=0), b"")


def _assembled(header: BatchHeader, content: bytes) -> bytes:
    covered = _AFTER_CRC.pack(*header[_AFTER_CRC_FIELD:]) + content
    length = len(covered) + CRC_START - LENGTH_OVERHEAD
    return _BEFORE_CRC.pack(header.base_offset, length, header.leader_epoch, MAGIC, crc32c(covered)) + covered


def _after_varint(payload: bytes, position: int) -> int:
    while payload[position] >= 0x80:
        position += 1
    return position + 1
