"""The records inside a batch of format 2. One strict walker, `walk_records`, goes over them; everything else here is made of it.

    record   varint size of what follows | int8 attributes, unused | varlong timestamp - base timestamp | varint offset - base offset
             varint size of the key (-1 = null), key | varint size of the value (-1 = null), value
             varint number of headers, each: varint size of the key, key | varint size of the value (-1 = null), value

Varints are zigzag. The records stand one after the other, and all of them may be compressed as one block. Reading trusts nothing: the CRC
is checked first (`CorruptMessage`), then sizes, counts and the order of offsets against the bytes that are there (`InvalidRecord`).
Gaps between offsets are fine: compaction leaves them.

The produce and fetch paths never come here, unless a topic wants its records looked at.
"""

from collections.abc import Iterable, Iterator, Sequence
from typing import Final, NamedTuple

from millstream.buffer import Buffer
from millstream.errors import InvalidRecord, MalformedFrame
from millstream.wire.batch import (
    CODEC_MASK,
    HEADER_SIZE,
    MAGIC,
    NO_PRODUCER_ID,
    NO_SEQUENCE,
    NO_TIMESTAMP,
    TRANSACTIONAL,
    BatchHeader,
    checked_header,
    seal,
    sealed_header,
)
from millstream.wire.compression import MAX_DECOMPRESSED_BYTES, Codec, codec_of, compress, decompress
from millstream.wire.primitives import read_unsigned_varint, read_unsigned_varlong, zigzag_varint

SMALLEST_RECORD: Final = 7
ANY_TIME: Final = -(1 << 65)
"""Before every time that 64 bits and a delta of 64 bits can make."""
_SMALLEST_HEADER: Final = 2
_NULL: Final = b"\x01"
_NO_DELTA: Final = b"\x00\x00"
"""The attributes, and the time of the first record."""
_NO_HEADERS: Final = b"\x00"

RecordHeaders = tuple[tuple[str, bytes | None], ...]
KeyValue = tuple[bytes, bytes | None]
Walked = tuple[int, int, int, int, int, int, int]
"""Offset and timestamp of a record; start and stop of its key, then of its value (a start of -1 is null); its end. Its headers begin where
the value stops, with a varint of their number."""
STEPPED_OVER: Final[Walked] = (-1, -1, -1, -1, -1, -1, -1)


class Record(NamedTuple):
    """A message as its producer sent it, with the offset the log gave it."""

    offset: int
    timestamp: int
    key: bytes | None
    value: bytes | None
    headers: RecordHeaders = ()


class ProducerStamp(NamedTuple):
    """Who wrote a batch, if an idempotent or transactional producer did."""

    producer_id: int = NO_PRODUCER_ID
    producer_epoch: int = -1
    base_sequence: int = NO_SEQUENCE


NO_PRODUCER: Final = ProducerStamp()


def decompressed(batch: Buffer, header: BatchHeader, *, limit: int = MAX_DECOMPRESSED_BYTES) -> Buffer:
    """The records of a whole batch, one after the other; a `KafkaError` if they cannot be decompressed to at most `limit` bytes."""
    return decompress(memoryview(batch)[HEADER_SIZE:], codec_of(header.codec), limit=limit)


def walk_records(payload: Buffer, header: BatchHeader, *, from_timestamp: int = ANY_TIME) -> Iterator[Walked]:
    """Go over the records that fill `payload`; `InvalidRecord` as soon as something does not fit, at the end if bytes are left over.

    Records from before `from_timestamp` come as `STEPPED_OVER`, and only their size and time are looked at. Times count from the base
    timestamp, also where the broker's holds for all. Headers are not looked into (`walk_headers`).
    """
    if not 0 <= header.record_count <= len(payload) // SMALLEST_RECORD:
        raise InvalidRecord(f"{header.record_count} records in {len(payload)} bytes")
    return _walk(payload, header, from_timestamp)


def _walk(payload: Buffer, header: BatchHeader, from_timestamp: int) -> Iterator[Walked]:  # noqa: C901 -- flat: it runs over millions
    base_offset, base_timestamp, last_offset = header.base_offset, header.base_timestamp, header.last_offset
    position, previous, length = 0, base_offset - 1, len(payload)
    try:
        for _ in range(header.record_count):
            size = payload[position]
            if size < 0x80:
                position += 1
            elif (more := payload[position + 1]) < 0x80:
                size += (more - 1) << 7
                position += 2
            else:
                size, position = read_unsigned_varint(payload, position)
            end = position + (size >> 1)
            delta = payload[position + 1]
            if delta < 0x80:
                position += 2
            elif (more := payload[position + 2]) < 0x80:
                delta += (more - 1) << 7
                position += 3
            else:
                delta, position = read_unsigned_varlong(payload, position + 1)
            timestamp = base_timestamp + (~(delta >> 1) if delta & 1 else delta >> 1)
            if timestamp < from_timestamp:
                yield STEPPED_OVER
                position = end
                continue
            delta = payload[position]
            if delta < 0x80:
                position += 1
            elif (more := payload[position + 1]) < 0x80:
                delta += (more - 1) << 7
                position += 2
            else:
                delta, position = read_unsigned_varint(payload, position)
            offset = base_offset + (delta >> 1)
            if not previous < offset <= last_offset or (size | delta) & 1:  # an odd number is a negative one
                raise InvalidRecord(f"offset {offset} after {previous} in a batch that ends at {last_offset}, or a record of negative size")
            previous = offset
            key_size = payload[position]
            if key_size < 0x80:
                position += 1
            else:
                key_size, position = read_unsigned_varint(payload, position)
            key_start = position if key_size != 1 else -1
            position += key_size >> 1
            key_stop = position
            value_size = payload[position]
            if value_size < 0x80:
                position += 1
            elif (more := payload[position + 1]) < 0x80:
                value_size += (more - 1) << 7
                position += 2
            else:
                value_size, position = read_unsigned_varint(payload, position)
            value_start = position if value_size != 1 else -1
            position += value_size >> 1
            # Behind the value there is at least the number of headers.
            if not position < end <= length or (key_size & 1 and key_size != 1) or (value_size & 1 and value_size != 1):
                raise InvalidRecord(f"the record at offset {offset} has a key or value that does not fit into it")
            yield offset, timestamp, key_start, key_stop, value_start, position, end
            position = end
    except IndexError:
        raise InvalidRecord(f"a batch ends before the last of its {header.record_count} records does") from None
    except MalformedFrame as error:
        raise InvalidRecord(f"a record of a batch cannot be read: {error}") from None
    if position != length:
        raise InvalidRecord(f"the {header.record_count} records of a batch end at byte {position} of {length}")


def records_at(payload: Buffer, numbers: Iterable[int]) -> tuple[bytes, int]:
    """The records of these numbers, which grow, of records that were walked before: from one size to the next.

    And the largest timestamp of theirs, counted from the base timestamp.
    """
    view, parts = memoryview(payload), []
    position = number = start = body = 0
    largest = ANY_TIME
    for wanted in numbers:
        while number <= wanted:
            start = position
            size = payload[position]
            if size < 0x80:
                body = position + 1
            elif (more := payload[position + 1]) < 0x80:
                size += (more - 1) << 7
                body = position + 2
            else:
                size, body = read_unsigned_varint(payload, position)
            position = body + (size >> 1)
            number += 1
        delta, _ = read_unsigned_varlong(payload, body + 1)
        largest = max(largest, ~(delta >> 1) if delta & 1 else delta >> 1)
        parts.append(view[start:position])
    return b"".join(parts), largest


def walk_headers(payload: Buffer, position: int, end: int) -> Iterator[tuple[int, int, int, int]]:
    """Start and stop of the key and of the value (a start of -1 is null) of each header of a record, from where its value stops."""
    try:
        zigzag_count, position = read_unsigned_varint(payload, position)
        count = zigzag_count >> 1
        if zigzag_count & 1 or count > (end - position) // _SMALLEST_HEADER:
            raise InvalidRecord(f"a record cannot have {count} headers in {end - position} bytes")
        for _ in range(count):
            size, key_start = read_unsigned_varint(payload, position)
            if size & 1:
                raise InvalidRecord("the key of a record header is null")
            key_stop = key_start + (size >> 1)
            size, value_start = read_unsigned_varint(payload, key_stop)
            position = value_start + (size >> 1)
            if position > end or (size & 1 and size != 1):
                raise InvalidRecord("the value of a record header does not fit into its record")
            yield key_start, key_stop, value_start if size != 1 else -1, position
    except MalformedFrame as error:
        raise InvalidRecord(f"the headers of a record cannot be read: {error}") from None
    if position != end:
        raise InvalidRecord(f"the headers of a record end at byte {position} and the record at {end}")


def decode_records(batch: Buffer, *, limit: int = MAX_DECOMPRESSED_BYTES) -> Iterator[Record]:
    """The records of one whole batch, checked as they come; at most `limit` bytes of them when decompressed."""
    header = checked_header(batch)
    payload = bytes(decompressed(batch, header, limit=limit))
    fixed_timestamp = header.max_timestamp if header.is_log_append_time else None
    for offset, timestamp, key_start, key_stop, value_start, value_stop, end in walk_records(payload, header):
        yield Record(
            offset,
            timestamp if fixed_timestamp is None else fixed_timestamp,
            payload[key_start:key_stop] if key_start >= 0 else None,
            payload[value_start:value_stop] if value_start >= 0 else None,
            _decode_headers(payload, value_stop, end) if payload[value_stop] or value_stop + 1 != end else (),
        )


def decode_key_values(batch: Buffer) -> list[tuple[bytes | None, bytes | None]]:
    """Keys and values of one whole batch, for who needs nothing else: a coordinator reads all of its partition at a start."""
    header = checked_header(batch)
    payload = bytes(decompressed(batch, header))
    return [
        (payload[key_start:key_stop] if key_start >= 0 else None, payload[value_start:value_stop] if value_start >= 0 else None)
        for _, _, key_start, key_stop, value_start, value_stop, _ in walk_records(payload, header)
    ]


def _decode_headers(payload: bytes, position: int, end: int) -> RecordHeaders:
    try:
        return tuple(
            (payload[key_start:key_stop].decode(), payload[value_start:value_stop] if value_start >= 0 else None)
            for key_start, key_stop, value_start, value_stop in walk_headers(payload, position, end)
        )
    except UnicodeDecodeError:
        raise InvalidRecord("the key of a record header is not valid UTF-8") from None


def encode_batch(
    records: Iterable[Record],
    *,
    codec: Codec = Codec.NONE,
    base_offset: int | None = None,
    last_offset_delta: int | None = None,
    leader_epoch: int = -1,
    producer: ProducerStamp = NO_PRODUCER,
    flags: int = 0,
    max_timestamp: int | None = None,
) -> bytes:
    """A batch of the records, in the order of their offsets. `flags` are the bits of the attributes other than the codec. What is not given
    is taken from the records."""
    entries = list(records)
    base = base_offset if base_offset is not None else entries[0].offset if entries else 0
    base_timestamp = entries[0].timestamp if entries else NO_TIMESTAMP
    if last_offset_delta is None:
        last_offset_delta = entries[-1].offset - base if entries else 0
    if max_timestamp is None:
        max_timestamp = max((record.timestamp for record in entries), default=NO_TIMESTAMP)
    payload = b"".join(
        encode_record(offset - base, key, value, timestamp_delta=timestamp - base_timestamp, headers=headers)
        for offset, timestamp, key, value, headers in entries
    )
    attributes = flags & ~CODEC_MASK | codec
    header = BatchHeader(
        base, 0, leader_epoch, MAGIC, 0, attributes, last_offset_delta, base_timestamp, max_timestamp, *producer, len(entries)
    )
    return seal(header, compress(payload, codec))


def encode_key_values(
    pairs: Sequence[KeyValue], *, timestamp: int, codec: Codec = Codec.NONE, transaction: ProducerStamp | None = None
) -> bytes:
    """One batch of the pairs, in their order, all of the same time; a value of None is a tombstone."""
    records = b"".join([encode_record(number, key, value) for number, (key, value) in enumerate(pairs)])
    return batch_of(records, count=len(pairs), timestamp=timestamp, codec=codec, transaction=transaction)


def batch_of(records: bytes, *, count: int, timestamp: int, codec: Codec = Codec.NONE, transaction: ProducerStamp | None = None) -> bytes:
    """One batch of records that are encoded already and all have the same time; in the transaction of a producer, if there is one."""
    payload = records if codec is Codec.NONE else compress(records, codec)
    attributes = codec if transaction is None else codec | TRANSACTIONAL
    return sealed_header((attributes, count - 1, timestamp, timestamp, *(transaction or NO_PRODUCER), count), payload) + payload


def recompressed(header: BatchHeader, payload: Buffer, *, codec: Codec, level: int | None = None) -> bytes:
    """The batch with this header around the records in `payload`, compressed by `codec`."""
    return seal(header._replace(attributes=header.attributes & ~CODEC_MASK | codec), compress(payload, codec, level=level))


def encode_record(
    offset_delta: int, key: bytes | None, value: bytes | None, *, timestamp_delta: int = 0, headers: RecordHeaders = ()
) -> bytes:
    """One record, as it stands among the others of its batch."""
    start = (_NO_DELTA if not timestamp_delta else b"\x00" + zigzag_varint(timestamp_delta)) + zigzag_varint(offset_delta)
    sized_key = _NULL if key is None else zigzag_varint(len(key)) + key
    sized_value = _NULL if value is None else zigzag_varint(len(value)) + value
    body = start + sized_key + sized_value + (_encode_headers(headers) if headers else _NO_HEADERS)
    return zigzag_varint(len(body)) + body


def with_timestamp_delta(payload: bytes, start: int, end: int, *, timestamp_delta: int) -> bytes:
    """The record in [start, end), which has been walked over, with another time; everything else is copied."""
    _, start = read_unsigned_varint(payload, start)
    _, rest = read_unsigned_varlong(payload, start + 1)
    body = payload[start : start + 1] + zigzag_varint(timestamp_delta) + payload[rest:end]
    return zigzag_varint(len(body)) + body


def _encode_headers(headers: RecordHeaders) -> bytes:
    parts = [zigzag_varint(len(headers))]
    for name, value in headers:
        key = name.encode()
        parts += (zigzag_varint(len(key)), key, _NULL if value is None else zigzag_varint(len(value)) + value)
    return b"".join(parts)
