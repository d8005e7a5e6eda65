"""Record batches to the buffers of Arrow arrays, without a Python object per record.

`scan_batches` reads the headers of the batches that stand one after the other in a fetched buffer; `decode_records` reads the records of some
of them and appends to arrays that become Arrow columns as they are. The format is drawn in `penstock.wire.batch` and `penstock.wire.records`.

Bytes come from outside and are trusted in nothing: every size is checked against what is left before anything is read, and arrays are as large
as the bytes could need (a record has at least seven bytes, a header two). What does not fit ends the call with a code of `PROBLEMS`; what was
appended by then is thrown away by the caller.

Records below `first_offset` or at or above `end_offset` are walked over: a slice of a partition may begin and end inside a batch.
"""

from typing import Final

import numpy as np
import numpy.typing as npt

from penstock.spark.byte_copy import copy_bytes
from penstock.spark.compiled import compiled

Ints = npt.NDArray[np.int64]
Bytes = npt.NDArray[np.uint8]
Offsets = npt.NDArray[np.int32]

HEADER_SIZE: Final = 61
LENGTH_OVERHEAD: Final = 12
SMALLEST_RECORD: Final = 7

# What `scan_batches` tells about a batch: one row of this many numbers.
POSITION, SIZE, BASE_OFFSET, MAGIC, ATTRIBUTES, LAST_OFFSET_DELTA, BASE_TIMESTAMP, MAX_TIMESTAMP, PRODUCER_ID, RECORD_COUNT = range(10)
FIELD_COUNT: Final = 10

# What `decode_records` counts on.
ROWS, KEY_BYTES, VALUE_BYTES, HEADERS, HEADER_KEY_BYTES, HEADER_VALUE_BYTES, NULL_KEYS, NULL_VALUES = range(8)
COUNTER_COUNT: Final = 8

WITH_KEY: Final = 1
WITH_VALUE: Final = 2
WITH_HEADERS: Final = 4

OK: Final = 0
PROBLEMS: Final = {
    1: "the size of a record does not fit the bytes of its batch",
    2: "a field of a record does not fit the record",
    3: "the offsets of records do not grow, or pass the end of their batch",
    4: "the fields of a record end before the record does",
    5: "there are bytes after the last record of a batch",
    6: "the number of headers of a record does not fit the record",
    7: "the key of a record header is null",
    8: "a timestamp is out of range",
    9: "the size of a batch does not fit its header",
    10: "more records than the bytes of a batch can hold",
}
MAX_TIMESTAMP_MS: Final = 9_223_372_036_854_775
"""The last millisecond that can be told in microseconds."""


@compiled
def read_varint(data: Bytes, position: int, end: int) -> tuple[int, int]:
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
def read_number(data: Bytes, position: int, width: int) -> int:
    """The big-endian signed number of `width` bytes at `position`."""
    value = np.int64(data[position])
    if value >= 0x80:
        value -= 0x100
    for index in range(position + 1, position + width):
        value = (value << 8) | np.int64(data[index])
    return value  # type: ignore[return-value]  # a numpy integer


@compiled
def scan_batches(data: Bytes, batches: Ints) -> tuple[int, int, int]:
    """Fill `batches` with the whole batches of `data`: their number, the position after the last one, and 0 or a code of `PROBLEMS`."""
    position = np.int64(0)
    count = 0
    while count < len(batches) and position + HEADER_SIZE <= len(data):
        size = read_number(data, position + 8, 4) + LENGTH_OVERHEAD
        if size < HEADER_SIZE:
            return count, position, 9
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
    return count, position, 0


@compiled
def decode_records(  # noqa: C901 -- written out flat: it runs over every record
    data: Bytes,
    batches: Ints,
    first_offset: int,
    end_offset: int,
    wanted: int,
    counters: Ints,
    offsets: Ints,
    timestamps: Ints,
    timestamp_types: Offsets,
    key_ends: Offsets,
    key_data: Bytes,
    key_nulls: Bytes,
    value_ends: Offsets,
    value_data: Bytes,
    value_nulls: Bytes,
    header_starts: Offsets,
    header_ends: Offsets,
) -> int:
    """Append the records of `batches`, whose rows point into `data`, to the arrays; 0, or a code of `PROBLEMS`.

    A row of `batches` points to the records themselves: `POSITION` and `SIZE` leave out the batch's header. Nulls are told byte by byte (1 =
    null). Of headers it is noted between which positions of `data` they lie; `decode_headers` reads them.
    """
    rows, key_size, value_size = counters[ROWS], counters[KEY_BYTES], counters[VALUE_BYTES]
    null_keys, null_values = counters[NULL_KEYS], counters[NULL_VALUES]
    for number in range(len(batches)):
        batch = batches[number]
        position = batch[POSITION]
        batch_end = position + batch[SIZE]
        is_append_time = batch[ATTRIBUTES] & 8
        previous_delta = np.int64(-1)
        for _ in range(batch[RECORD_COUNT]):
            size, position = read_varint(data, position, batch_end)
            if position < 0 or size < SMALLEST_RECORD - 1 or size > batch_end - position:
                return 1
            end = position + size
            timestamp_delta, position = read_varint(data, position + 1, end)
            if position < 0:
                return 2
            delta, position = read_varint(data, position, end)
            if position < 0:
                return 2
            if delta <= previous_delta or delta > batch[LAST_OFFSET_DELTA]:
                return 3
            previous_delta = delta
            key_length, position = read_varint(data, position, end)
            if position < 0 or key_length < -1 or key_length > end - position:
                return 2
            key_position = position
            if key_length > 0:
                position += key_length
            value_length, position = read_varint(data, position, end)
            if position < 0 or value_length < -1 or value_length > end - position:
                return 2
            value_position = position
            if value_length > 0:
                position += value_length
            if position >= end:
                return 2
            headers_position = position
            if data[position] == 0:
                if position + 1 != end:
                    return 4
            else:
                code = check_headers(data, position, end)
                if code != 0:
                    return code
            position = end
            offset = batch[BASE_OFFSET] + delta
            if offset < first_offset or offset >= end_offset:
                continue
            if is_append_time:
                timestamp = batch[MAX_TIMESTAMP]
            else:
                timestamp = batch[BASE_TIMESTAMP] + timestamp_delta
            if timestamp > MAX_TIMESTAMP_MS or timestamp < -MAX_TIMESTAMP_MS:
                return 8
            offsets[rows] = offset
            timestamps[rows] = timestamp * 1000
            timestamp_types[rows] = 1 if is_append_time else 0
            if wanted & WITH_KEY:
                if key_length > 0:
                    copy_bytes(key_data, key_size, data, key_position, key_length)
                    key_size += key_length
                key_nulls[rows] = 1 if key_length < 0 else 0
                null_keys += key_nulls[rows]
                key_ends[rows + 1] = key_size
            if wanted & WITH_VALUE:
                if value_length > 0:
                    copy_bytes(value_data, value_size, data, value_position, value_length)
                    value_size += value_length
                value_nulls[rows] = 1 if value_length < 0 else 0
                null_values += value_nulls[rows]
                value_ends[rows + 1] = value_size
            if wanted & WITH_HEADERS:
                header_starts[rows] = headers_position
                header_ends[rows] = end
            rows += 1
        if position != batch_end:
            return 5
    counters[ROWS], counters[KEY_BYTES], counters[VALUE_BYTES] = rows, key_size, value_size
    counters[NULL_KEYS], counters[NULL_VALUES] = null_keys, null_values
    return 0


@compiled
def check_headers(data: Bytes, position: int, end: int) -> int:
    """Whether the headers between `position` and `end` are whole: 0, or a code of `PROBLEMS`."""
    count, position = read_varint(data, position, end)
    if position < 0 or count < 0 or count > (end - position) // 2:
        return 6
    for _ in range(count):
        size, position = read_varint(data, position, end)
        if position < 0 or size < -1 or size > end - position:
            return 2
        if size < 0:
            return 7
        position += size
        size, position = read_varint(data, position, end)
        if position < 0 or size < -1 or size > end - position:
            return 2
        if size > 0:
            position += size
    return 0 if position == end else 4


@compiled
def decode_headers(
    data: Bytes,
    first_row: int,
    counters: Ints,
    header_starts: Offsets,
    header_ends: Offsets,
    list_ends: Offsets,
    list_nulls: Bytes,
    key_ends: Offsets,
    key_data: Bytes,
    value_ends: Offsets,
    value_data: Bytes,
    value_nulls: Bytes,
) -> None:
    """Append the headers of the rows from `first_row` on, which `decode_records` has checked; a row without headers has a null."""
    headers, key_size, value_size = counters[HEADERS], counters[HEADER_KEY_BYTES], counters[HEADER_VALUE_BYTES]
    for row in range(first_row, counters[ROWS]):
        end = np.int64(header_ends[row])
        count, position = read_varint(data, np.int64(header_starts[row]), end)
        list_nulls[row] = 1 if count == 0 else 0
        for _ in range(count):
            size, position = read_varint(data, position, end)
            copy_bytes(key_data, key_size, data, position, size)
            position += size
            key_size += size
            size, position = read_varint(data, position, end)
            value_nulls[headers] = 1 if size < 0 else 0
            if size > 0:
                copy_bytes(value_data, value_size, data, position, size)
                position += size
                value_size += size
            headers += 1
            key_ends[headers] = key_size
            value_ends[headers] = value_size
        list_ends[row + 1] = headers
    counters[HEADERS], counters[HEADER_KEY_BYTES], counters[HEADER_VALUE_BYTES] = headers, key_size, value_size
