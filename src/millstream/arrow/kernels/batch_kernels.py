"""The loops of the sink: rows of Arrow columns become records of Kafka's format 2 (drawn in `millstream.wire.records`).

All records of a batch have the same time, so the timestamp delta is one zero byte. A record's size is known before it is written except for
its offset delta, the position in the batch, which takes one to five bytes: `row_sizes` leaves it and the leading size out.
"""

import numpy as np

from millstream.arrow.binary_columns import BinaryColumn, Offsets, Rows
from millstream.arrow.kernels.compiled import Bytes, compiled
from millstream.arrow.kernels.raw_memory import copy_bytes


@compiled
def varint_size(value: int) -> int:
    """Bytes of a number that is not negative as a zigzag varint."""
    rest = value << 1
    size = 1
    while rest >= 0x80:
        rest >>= 7
        size += 1
    return size


@compiled
def write_varint(out: Bytes, position: int, value: int) -> int:
    """Write a number that is not negative as a zigzag varint; the position after it."""
    rest = value << 1
    while rest >= 0x80:
        out[position] = rest & 0x7F | 0x80
        position += 1
        rest >>= 7
    out[position] = rest
    return position + 1


@compiled
def _field_size(column: BinaryColumn, row: int) -> int:
    if column.is_null[row]:
        return 1
    size: int = column.offsets[row + 1] - column.offsets[row]
    return varint_size(size) + size


@compiled
def _write_field(out: Bytes, position: int, column: BinaryColumn, row: int) -> int:
    if column.is_null[row]:
        out[position] = 1  # -1 as a zigzag varint
        return position + 1
    start = column.offsets[row]
    size: int = column.offsets[row + 1] - start
    position = write_varint(out, position, size)
    copy_bytes(out, position, column.data, start, size)
    return position + size


@compiled
def row_sizes(rows: Rows) -> Offsets:
    """Bytes of each row's record without its leading size and its offset delta."""
    headers = rows.headers
    count = rows.key.is_null.size
    sizes = np.empty(count, dtype=np.int64)
    for row in range(count):
        size = 3 + _field_size(rows.key, row) + _field_size(rows.value, row)  # attributes, timestamp delta, no headers
        if rows.has_headers and not headers.is_null[row]:
            start, end = headers.offsets[row], headers.offsets[row + 1]
            size += varint_size(end - start) - 1
            for index in range(start, end):
                size += _field_size(headers.keys, index) + _field_size(headers.values, index)
        sizes[row] = size
    return sizes


@compiled
def first_record_size(row_size: int) -> int:
    """Bytes of a record that is the first of its batch; `row_size` is what `row_sizes` says."""
    return varint_size(row_size + 1) + row_size + 1


@compiled
def group_rows(partitions: Offsets, partition_count: int) -> tuple[Offsets, Offsets]:
    """Rows in the order of their partitions, each partition's in their own order; and where each partition begins in it."""
    starts = np.zeros(partition_count + 1, dtype=np.int64)
    for partition in partitions:
        starts[partition + 1] += 1
    for partition in range(partition_count):
        starts[partition + 1] += starts[partition]
    next_places = starts[:-1].copy()
    rows = np.empty(partitions.size, dtype=np.int64)
    for row in range(partitions.size):
        partition = partitions[row]
        rows[next_places[partition]] = row
        next_places[partition] += 1
    return rows, starts


@compiled
def write_records(rows: Rows, picked: Offsets, sizes: Offsets, out: Bytes, start: tuple[int, int]) -> tuple[int, int]:
    """Write the records of the `picked` rows while they fit. `start` is the position in `out` and the number of records that are there
    already; returns both for what is there then."""
    position, record_count = start
    for row in picked:
        size = sizes[row] + varint_size(record_count)
        if position + varint_size(size) + size > out.size:
            break
        position = write_varint(out, position, size)
        out[position] = 0
        out[position + 1] = 0
        position = write_varint(out, position + 2, record_count)
        position = _write_field(out, position, rows.key, row)
        position = _write_field(out, position, rows.value, row)
        position = _write_headers(out, position, rows, row)
        record_count += 1
    return position, record_count


@compiled
def _write_headers(out: Bytes, position: int, rows: Rows, row: int) -> int:
    headers = rows.headers
    if not rows.has_headers or headers.is_null[row]:
        out[position] = 0
        return position + 1
    start, end = headers.offsets[row], headers.offsets[row + 1]
    position = write_varint(out, position, end - start)
    for index in range(start, end):
        position = _write_field(out, position, headers.keys, index)
        position = _write_field(out, position, headers.values, index)
    return position
