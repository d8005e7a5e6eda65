"""What compaction leaves of one batch. Pure; the rules are those of Kafka's `Cleaner` for batches of format 2.

A record stays if no later record of its key is known. One without a value (a tombstone) deletes its key: it stays for `delete.retention.ms`
from the first time it is compacted, so that readers can see it. That time, the *delete horizon*, is kept in the batch: attribute bit 6 says
that the base timestamp is one (KIP-534). A record without a key goes.

A batch keeps its base offset, its last offset, its sequence numbers, its codec and the times of its records; only its records get fewer.
One that has none left goes, unless it has to stay, empty: the last batch of a producer that the log remembers (its sequence would be
forgotten otherwise), and the last batch of a segment (the segment would end too early otherwise).

The records of an aborted transaction go. A marker stays as long as its transaction has a batch, and then for `delete.retention.ms` from the
next time it is compacted, like a tombstone, so that whoever reads the transaction finds out how it ended. Which is which is known to
`transactions.cleaned_transactions`.

Records are copied as they are, so their deltas stay right; only setting a horizon writes the timestamp deltas anew.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from millstream.buffer import Buffer
from millstream.errors import CorruptMessage, InvalidRecord
from millstream.log.compaction.record_keys import read_keys, short_key
from millstream.log.config import LONG_MAX
from millstream.wire.batch import CODEC_MASK, DELETE_HORIZON, NO_TIMESTAMP, BatchHeader, compute_crc, seal
from millstream.wire.compression import codec_of, compress
from millstream.wire.records import decompressed, records_at, walk_records, with_timestamp_delta


class RecordColumns(NamedTuple):
    """The records of one batch, field by field; record `n` lies between `ends[n - 1]` (or where they begin) and `ends[n]`."""

    keys: list[bytes | None]
    offsets: list[int]
    timestamps: list[int]
    """By the base timestamp, also where the broker's time holds for all."""
    ends: list[int]
    tombstones: list[int]
    """Numbers of the records without a value."""


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
    marker_epochs: Mapping[int, int]
    """The epochs of producers of which the log has no such batch, only markers."""
    first_dirty_offset: int = 0
    """From here on `latest` speaks: of earlier records it knows that their keys come again."""
    latest_in: Callable[[BatchHeader], Sequence[int] | None] = lambda _header: None
    """The offsets of the records of a batch that are the latest of their keys, where that is known without a look at all of them."""
    has_tombstones: Callable[[BatchHeader], bool] = lambda _header: True
    """Of such a batch: whether a record of it is a tombstone, or that is not known any more."""

    def is_last_of_producer(self, header: BatchHeader) -> bool:
        """Whether what the log remembers of a producer comes from this batch."""
        last_offset = self.last_offsets.get(header.producer_id)
        if last_offset is not None:
            return last_offset == header.last_offset
        return header.is_control and self.marker_epochs.get(header.producer_id) == header.producer_epoch


class BatchKeys(NamedTuple):
    """Key and offset of each record of a batch, and whether any of the records is a tombstone."""

    keys: Sequence[bytes | None]
    offsets: Sequence[int]
    has_tombstones: bool


class CleanedBatch:
    """What is left of a batch: bytes to write (None: nothing), and what indexes want to know of them."""

    __slots__ = ("content", "max_timestamp", "record_count")

    def __init__(self, content: Buffer | None, record_count: int, max_timestamp: int) -> None:
        self.content = content
        self.record_count = record_count
        self.max_timestamp = max_timestamp if record_count else NO_TIMESTAMP


def open_batch(header: BatchHeader, batch: memoryview) -> tuple[bytes, RecordColumns]:
    """The decompressed records of a batch and what they are; CorruptMessage or another KafkaError if its inside is broken."""
    payload = _payload(header, batch)
    return payload, read_columns(payload, header)


def keys_of(header: BatchHeader, batch: memoryview) -> BatchKeys:
    """What the first pass learns of a batch; raises what `open_batch` raises."""
    payload = _payload(header, batch)
    quick = read_keys(payload, header) if has_no_gaps(header) else None
    if quick is not None:
        return BatchKeys(quick.keys, range(header.base_offset, header.next_offset), quick.has_tombstones)
    records = read_columns(payload, header)
    return BatchKeys(records.keys, records.offsets, bool(records.tombstones))


def has_no_gaps(header: BatchHeader) -> bool:
    """Whether the batch has a record for each of its offsets, so that records are known by their number."""
    return header.record_count == header.last_offset_delta + 1


def _payload(header: BatchHeader, batch: memoryview) -> bytes:
    """The decompressed records of a batch, if its CRC is right."""
    if compute_crc(batch) != header.crc:
        raise CorruptMessage(f"the CRC of the batch at offset {header.base_offset} does not match its bytes")
    return bytes(decompressed(batch, header))


def read_columns(payload: bytes, header: BatchHeader) -> RecordColumns:
    """What compaction wants to know of the records that fill `payload`; raises `InvalidRecord` if they do not."""
    columns = keys, offsets, timestamps, ends, tombstones = RecordColumns([], [], [], [], [])
    for offset, timestamp, key_start, key_stop, value_start, _, end in walk_records(payload, header):
        keys.append(short_key(payload[key_start:key_stop]) if key_start >= 0 else None)
        if value_start < 0:
            tombstones.append(len(ends))
        offsets.append(offset)
        timestamps.append(timestamp)
        ends.append(end)
    return columns


def clean_batch(
    header: BatchHeader, batch: memoryview, rules: CleaningRules, *, is_last: bool, is_discardable: bool = False
) -> CleanedBatch:
    """The batch without the records that compaction drops; raises what `open_batch` raises, and where times do not fit 64 bits.

    `is_discardable`: it is of an aborted transaction, or a marker that has nothing left to mark.
    """
    if header.is_control:
        return _clean_marker(header, batch, rules, is_last=is_last, is_discardable=is_discardable)
    latest = () if is_discardable else rules.latest_in(header)
    if latest is not None and not latest:
        return _without_records(header, batch, rules, is_last=is_last)
    is_plain = latest is not None and not rules.has_tombstones(header)
    if latest is not None and is_plain and len(latest) == header.record_count:
        return CleanedBatch(batch, header.record_count, header.max_timestamp)
    payload = _payload(header, batch)
    numbers = [offset - header.base_offset for offset in latest] if latest and has_no_gaps(header) else None
    plainly_kept = numbers if is_plain else _outlasting(header, payload, rules)
    if plainly_kept is not None:
        return _clean_plain(header, batch, rules, payload, plainly_kept, is_last=is_last)
    if numbers is None:
        return _clean_looked_at(header, batch, rules, payload, read_columns(payload, header), is_last=is_last)
    body, _ = records_at(payload, numbers)
    return _clean_looked_at(header, batch, rules, body, read_columns(body, header._replace(record_count=len(numbers))), is_last=is_last)


def _outlasting(header: BatchHeader, payload: bytes, rules: CleaningRules) -> Sequence[int] | None:
    """Numbers of the records of a batch before the dirty part whose keys do not come again; None if it is not that, or has tombstones."""
    quick = read_keys(payload, header) if header.last_offset < rules.first_dirty_offset else None
    if quick is None or quick.has_tombstones:
        return None
    latest = rules.latest
    return range(len(quick.keys)) if latest.keys().isdisjoint(quick.keys) else [n for n, key in enumerate(quick.keys) if key not in latest]


def _clean_plain(
    header: BatchHeader, batch: memoryview, rules: CleaningRules, payload: bytes, kept: Sequence[int], *, is_last: bool
) -> CleanedBatch:
    """The batch with these of its records, none of which is a tombstone."""
    if not kept:
        return _without_records(header, batch, rules, is_last=is_last)
    if len(kept) == header.record_count:
        return CleanedBatch(batch, header.record_count, header.max_timestamp)
    body, largest_delta = records_at(payload, kept)
    return _rebuilt(header, body, len(kept), max_timestamp=header.base_timestamp + largest_delta)


def _clean_looked_at(
    header: BatchHeader, batch: memoryview, rules: CleaningRules, payload: bytes, records: RecordColumns, *, is_last: bool
) -> CleanedBatch:
    """What is left of the records in `payload`, which are all of the batch or those that are the latest of their keys."""
    kept = _kept_records(header, records, rules)
    if not kept:
        return _without_records(header, batch, rules, is_last=is_last)
    needs_horizon = bool(records.tombstones) and not header.attributes & DELETE_HORIZON and not set(kept).isdisjoint(records.tombstones)
    if needs_horizon:
        return _with_horizon(header, payload, records, kept, horizon_ms=min(rules.now_ms + rules.delete_retention_ms, LONG_MAX))
    if len(kept) == header.record_count:
        return CleanedBatch(batch, header.record_count, header.max_timestamp)
    ends = records.ends
    if len(kept) < len(ends):
        payload = b"".join([payload[ends[number - 1] if number else 0 : ends[number]] for number in kept])
    return _rebuilt(header, payload, len(kept), max_timestamp=_largest_time(records, kept))


def _clean_marker(header: BatchHeader, batch: memoryview, rules: CleaningRules, *, is_last: bool, is_discardable: bool) -> CleanedBatch:
    if not is_discardable:
        return CleanedBatch(batch, header.record_count, header.max_timestamp)
    if not header.attributes & DELETE_HORIZON and header.record_count:
        payload, records = open_batch(header, batch)
        return _with_horizon(header, payload, records, [0], horizon_ms=min(rules.now_ms + rules.delete_retention_ms, LONG_MAX))
    if header.record_count and header.base_timestamp > rules.now_ms:
        return CleanedBatch(batch, header.record_count, header.max_timestamp)
    return _without_records(header, batch, rules, is_last=is_last)


def _without_records(header: BatchHeader, batch: memoryview, rules: CleaningRules, *, is_last: bool) -> CleanedBatch:
    """Nothing, or an empty batch where one has to stay."""
    must_stay = is_last or (header.producer_id >= 0 and rules.is_last_of_producer(header))
    return CleanedBatch(_emptied(header, batch) if must_stay else None, 0, NO_TIMESTAMP)


def _kept_records(header: BatchHeader, records: RecordColumns, rules: CleaningRules) -> list[int]:
    """Numbers of the records that stay."""
    latest_of, latest_offset = rules.latest.get, rules.latest_offset
    numbered = zip(range(len(records.keys)), records.keys, records.offsets, strict=True)
    if header.last_offset <= latest_offset:
        kept = [number for number, key, offset in numbered if latest_of(key, -1) <= offset]
    else:
        kept = [number for number, key, offset in numbered if offset > latest_offset or latest_of(key, -1) <= offset]
    has_horizon_passed = header.attributes & DELETE_HORIZON and header.base_timestamp <= rules.now_ms
    if has_horizon_passed and records.tombstones:
        # Not those beyond `latest_offset`: older values of their keys may still be there.
        dead = {number for number in records.tombstones if records.offsets[number] <= latest_offset}
        kept = [number for number in kept if number not in dead]
    return kept


def _largest_time(records: RecordColumns, kept: Sequence[int]) -> int:
    return max(records.timestamps[number] for number in kept)


def _rebuilt(header: BatchHeader, body: bytes, count: int, *, max_timestamp: int, horizon_ms: int | None = None) -> CleanedBatch:
    """A batch of the records in `body`, of which `max_timestamp` is the largest time, by the base timestamp."""
    if header.is_log_append_time:
        max_timestamp = header.max_timestamp
    elif not -LONG_MAX <= max_timestamp <= LONG_MAX:
        raise InvalidRecord(f"a record of the batch at offset {header.base_offset} has the time {max_timestamp}")
    attributes = header.attributes if horizon_ms is None else header.attributes | DELETE_HORIZON
    base_timestamp = header.base_timestamp if horizon_ms is None else horizon_ms
    changed = header._replace(attributes=attributes, base_timestamp=base_timestamp, max_timestamp=max_timestamp, record_count=count)
    return CleanedBatch(seal(changed, compress(body, codec_of(header.codec))), count, max_timestamp)


def _with_horizon(header: BatchHeader, payload: bytes, records: RecordColumns, kept: list[int], *, horizon_ms: int) -> CleanedBatch:
    """The batch with its tombstones' last day in the base timestamp, from which the times of its records count now."""
    deltas = [records.timestamps[number] - horizon_ms for number in kept]
    if min(deltas) < -LONG_MAX or max(deltas) > LONG_MAX:
        raise InvalidRecord(f"a record of the batch at offset {header.base_offset} is too old for a delete horizon of {horizon_ms}")
    starts, ends = [0, *records.ends], records.ends
    body = b"".join(
        [with_timestamp_delta(payload, starts[n], ends[n], timestamp_delta=delta) for n, delta in zip(kept, deltas, strict=True)]
    )
    return _rebuilt(header, body, len(kept), max_timestamp=_largest_time(records, kept), horizon_ms=horizon_ms)


def _emptied(header: BatchHeader, batch: memoryview) -> Buffer:
    """The batch without records, as Kafka writes it: uncompressed, without a base timestamp."""
    if header.record_count == 0:
        return batch
    attributes = header.attributes & ~(CODEC_MASK | DELETE_HORIZON)
    return seal(header._replace(attributes=attributes, base_timestamp=NO_TIMESTAMP, record_count=0), b"")
