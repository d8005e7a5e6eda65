"""Record batches to the buffers of Arrow arrays, without a Python object per record.

`scan_batches` reads the headers of the batches that stand one after the other in a fetched buffer; `decode_records` reads the records of
some of them and appends to arrays that become Arrow columns as they are. The format is drawn in `millstream.wire.batch` and
`millstream.wire.records`.

Bytes come from outside and are trusted in nothing: every size is checked against what is left before anything is read, and arrays are as
large as the bytes could need (a record has at least seven bytes, a header two). What does not fit ends the call with a code of `PROBLEMS`;
what was appended by then is thrown away by the caller.

Records below `first_offset` or at or above `end_offset` are walked over: a range of offsets may begin and end inside a batch.
"""

from typing import Final, NamedTuple

import numpy as np

from millstream.arrow.kernels.compiled import Bytes, Ends, Flags, Ints, Number, compiled
from millstream.arrow.kernels.raw_memory import copy_bytes

HEADER_SIZE: Final = 61
LENGTH_OVERHEAD: Final = 12
SMALLEST_RECORD: Final = 7
SMALLEST_HEADER: Final = 2

# What `scan_batches` reads of a batch: one row of these numbers.
POSITION, SIZE, BASE_OFFSET, MAGIC, ATTRIBUTES, LAST_OFFSET_DELTA, BASE_TIMESTAMP, MAX_TIMESTAMP, PRODUCER_ID, RECORD_COUNT = range(10)
FIELD_COUNT: Final = 10

# What the decoders count on.
ROWS, KEY_BYTES, VALUE_BYTES, HEADERS, HEADER_KEY_BYTES, HEADER_VALUE_BYTES = range(6)
COUNTER_COUNT: Final = 6

WITH_KEY: Final = 1
WITH_VALUE: Final = 2
WITH_HEADERS: Final = 4

LOG_APPEND_TIME: Final = 8
OK: Final = 0
BAD_SIZE, BAD_FIELD, BAD_OFFSET, BAD_END, BAD_REST, BAD_HEADERS, BAD_HEADER_KEY, BAD_BATCH_SIZE = range(1, 9)
PROBLEMS: Final = {
    BAD_SIZE: "the size of a record does not fit the bytes of its batch",
    BAD_FIELD: "a field of a record does not fit the record",
    BAD_OFFSET: "the offsets of records do not grow, or pass the end of their batch",
    BAD_END: "the fields of a record end before the record does",
    BAD_REST: "there are bytes after the last record of a batch",
    BAD_HEADERS: "the number of headers of a record does not fit the record",
    BAD_HEADER_KEY: "the key of a record header is null",
    BAD_BATCH_SIZE: "the size of a batch does not fit its header",
}
MAX_TIMESTAMP_MS: Final = 9_223_372_036_854_775
"""The last millisecond that has microseconds, of the year 294247. A later timestamp is read as this one: Kafka takes any, and one absurd
message must not keep the others of its batch from being read."""


class RecordArrays(NamedTuple):
    """Where records go. A byte per record says whether it is null; ends are the offsets of Arrow's binary arrays, without the leading 0.

    Of headers it is noted between which positions of the bytes they lie; `decode_headers` reads them.
    """

    offsets: Ints
    timestamps: Ints
    timestamp_types: Ends
    key_ends: Ends
    key_data: Bytes
    key_nulls: Flags
    value_ends: Ends
    value_data: Bytes
    value_nulls: Flags
    header_starts: Ends
    header_ends: Ends


class HeaderArrays(NamedTuple):
    """Where the headers of records go: one list per row, one entry of the rest per header."""

    list_ends: Ends
    list_nulls: Flags
    key_ends: Ends
    key_data: Bytes
    value_ends: Ends
    value_data: Bytes
    value_nulls: Flags


@compiled
def read_varint(data: Bytes, position: Number, end: Number) -> tuple[Number, Number]:
    """The zigzag varint at `position` and the position after it, or -1 for that if it does not end before `end` or is too long."""
    value = np.int64(0)
    shift = np.int64(0)
    while position < end and shift < 64:
        byte = np.int64(data[position])
        position += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return ((value >> 1) & 0x7FFFFFFFFFFFFFFF) ^ -(value & 1), position
        shift += 7
    return value, -1


@compiled
def read_number(data: Bytes, position: Number, width: Number) -> Number:
    """The big-endian signed number of `width` bytes at `position`."""
    value = np.int64(data[position])
    if value >= 0x80:
        value -= 0x100
    for index in range(position + 1, position + width):
        value = (value << 8) | np.int64(data[index])
    return value


@compiled
def scan_batches(data: Bytes, position: Number, batches: Ints) -> tuple[Number, Number, Number]:
    """Fill `batches` with the whole batches from `position` on: their number, the position after the last, and a code of `PROBLEMS`."""
    count = 0
    while count < len(batches) and position + HEADER_SIZE <= len(data):
        size = read_number(data, position + 8, 4) + LENGTH_OVERHEAD
        if size < HEADER_SIZE:
            return count, position, BAD_BATCH_SIZE
        if size > len(data) - position:
            break
        row = batches[count]
        row[POSITION] = position
        row[SIZE] = size
        row[BASE_OFFSET] = read_number(data, position, 8)
        row[MAGIC] = np.int64(data[position + 16])
        row[ATTRIBUTES] = read_number(data, position + 21, 2)
        row[LAST_OFFSET_DELTA] = read_number(data, position + 23, 4)
        row[BASE_TIMESTAMP] = read_number(data, position + 27, 8)
        row[MAX_TIMESTAMP] = read_number(data, position + 35, 8)
        row[PRODUCER_ID] = read_number(data, position + 43, 8)
        row[RECORD_COUNT] = read_number(data, position + 57, 4)
        count += 1
        position += size
    return count, position, OK


@compiled
def find_next_offset(data: Bytes) -> Number:
    """The offset after the last whole batch, or -1 if there is none: where the next fetch begins, before anything is decoded."""
    position = np.int64(0)
    next_offset = np.int64(-1)
    while position + HEADER_SIZE <= len(data):
        size = read_number(data, position + 8, 4) + LENGTH_OVERHEAD
        if size < HEADER_SIZE or size > len(data) - position:
            break
        next_offset = read_number(data, position, 8) + read_number(data, position + 23, 4) + 1
        position += size
    return next_offset


@compiled
def walk_record(
    data: Bytes, position: Number, batch_end: Number
) -> tuple[Number, Number, Number, Number, Number, Number, Number, Number, Number]:
    """The record at `position`: a code, its end, timestamp and offset delta, place and length of key and value, its headers."""
    nothing = np.int64(0)
    size, position = read_varint(data, position, batch_end)
    if position < 0 or size < SMALLEST_RECORD - 1 or size > batch_end - position:
        return BAD_SIZE, nothing, nothing, nothing, nothing, nothing, nothing, nothing, nothing
    end = position + size
    timestamp_delta, position = read_varint(data, position + 1, end)
    if position < 0:
        return BAD_FIELD, nothing, nothing, nothing, nothing, nothing, nothing, nothing, nothing
    offset_delta, position = read_varint(data, position, end)
    if position < 0:
        return BAD_FIELD, nothing, nothing, nothing, nothing, nothing, nothing, nothing, nothing
    key_length, position = read_varint(data, position, end)
    if position < 0 or key_length < -1 or key_length > end - position:
        return BAD_FIELD, nothing, nothing, nothing, nothing, nothing, nothing, nothing, nothing
    key_position = position
    position += max(key_length, nothing)
    value_length, position = read_varint(data, position, end)
    if position < 0 or value_length < -1 or value_length > end - position:
        return BAD_FIELD, nothing, nothing, nothing, nothing, nothing, nothing, nothing, nothing
    value_position = position
    position += max(value_length, nothing)
    if position >= end:
        return BAD_FIELD, nothing, nothing, nothing, nothing, nothing, nothing, nothing, nothing
    code = check_headers(data, position, end)
    return code, end, timestamp_delta, offset_delta, key_position, key_length, value_position, value_length, position


@compiled
def check_headers(data: Bytes, position: Number, end: Number) -> Number:
    """Whether the headers between `position` and `end` are whole: 0, or a code of `PROBLEMS`."""
    if data[position] == 0:
        return OK if position + 1 == end else BAD_END
    count, position = read_varint(data, position, end)
    if position < 0 or count < 0 or count > (end - position) // SMALLEST_HEADER:
        return BAD_HEADERS
    for _ in range(count):
        size, position = read_varint(data, position, end)
        if position < 0 or size < -1 or size > end - position:
            return BAD_FIELD
        if size < 0:
            return BAD_HEADER_KEY
        position += size
        size, position = read_varint(data, position, end)
        if position < 0 or size < -1 or size > end - position:
            return BAD_FIELD
        if size > 0:
            position += size
    return OK if position == end else BAD_END


@compiled
def decode_records(
    data: Bytes, batches: Ints, first_offset: Number, end_offset: Number, wanted: Number, counters: Ints, into: RecordArrays
) -> Number:
    """Append the records of `batches`, whose rows point into `data`, to the arrays; 0, or a code of `PROBLEMS`.

    Here `POSITION` and `SIZE` of a batch leave out its header: they are those of the records.
    """
    rows, key_size, value_size = counters[ROWS], counters[KEY_BYTES], counters[VALUE_BYTES]
    for number in range(len(batches)):
        batch = batches[number]
        position = batch[POSITION]
        batch_end = position + batch[SIZE]
        is_append_time = batch[ATTRIBUTES] & LOG_APPEND_TIME
        previous_delta = np.int64(-1)
        for _ in range(batch[RECORD_COUNT]):
            code, end, timestamp_delta, delta, key_position, key_length, value_position, value_length, headers = walk_record(
                data, position, batch_end
            )
            if code != OK:
                return code
            if delta <= previous_delta or delta > batch[LAST_OFFSET_DELTA]:
                return BAD_OFFSET
            previous_delta = delta
            position = end
            offset = batch[BASE_OFFSET] + delta
            if offset < first_offset or offset >= end_offset:
                continue
            if is_append_time:
                timestamp = batch[MAX_TIMESTAMP]
            else:
                timestamp = batch[BASE_TIMESTAMP] + timestamp_delta
            into.offsets[rows] = offset
            into.timestamps[rows] = min(max(timestamp, -MAX_TIMESTAMP_MS), MAX_TIMESTAMP_MS) * 1000
            into.timestamp_types[rows] = 1 if is_append_time else 0
            if wanted & WITH_KEY:
                into.key_nulls[rows] = key_length < 0
                if key_length > 0:
                    copy_bytes(into.key_data, key_size, data, key_position, key_length)
                    key_size += key_length
                into.key_ends[rows] = key_size
            if wanted & WITH_VALUE:
                into.value_nulls[rows] = value_length < 0
                if value_length > 0:
                    copy_bytes(into.value_data, value_size, data, value_position, value_length)
                    value_size += value_length
                into.value_ends[rows] = value_size
            if wanted & WITH_HEADERS:
                into.header_starts[rows] = headers
                into.header_ends[rows] = end
            rows += 1
        if position != batch_end:
            return BAD_REST
    counters[ROWS], counters[KEY_BYTES], counters[VALUE_BYTES] = rows, key_size, value_size
    return OK


@compiled
def decode_headers(data: Bytes, first_row: Number, counters: Ints, rows: RecordArrays, into: HeaderArrays) -> None:
    """Append the headers of the rows from `first_row` on, which `decode_records` has checked; a row without headers has a null."""
    headers, key_size, value_size = counters[HEADERS], counters[HEADER_KEY_BYTES], counters[HEADER_VALUE_BYTES]
    for row in range(first_row, counters[ROWS]):
        end = np.int64(rows.header_ends[row])
        count, position = read_varint(data, np.int64(rows.header_starts[row]), end)
        into.list_nulls[row] = count == 0
        for _ in range(count):
            size, position = read_varint(data, position, end)
            copy_bytes(into.key_data, key_size, data, position, size)
            position += size
            key_size += size
            size, position = read_varint(data, position, end)
            into.value_nulls[headers] = size < 0
            if size > 0:
                copy_bytes(into.value_data, value_size, data, position, size)
                position += size
                value_size += size
            into.key_ends[headers] = key_size
            into.value_ends[headers] = value_size
            headers += 1
        into.list_ends[row] = headers
    counters[HEADERS], counters[HEADER_KEY_BYTES], counters[HEADER_VALUE_BYTES] = headers, key_size, value_size
