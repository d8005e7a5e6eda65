"""Records that are being gathered for one Arrow record batch: the arrays that the kernel fills, and the Arrow arrays made of them.

The arrays are made as large as the bytes could need; what of them is not written is never touched and costs no memory. Arrow takes them
over without copying, so each record batch gets arrays of its own. Values lie in memory of `byte_memory`, apart from all else: who has made
typed columns of them keeps the rest and lets the values go.
"""

from collections.abc import Sequence
from typing import Final

import numpy as np
import pyarrow as pa

from millstream.arrow.binary_columns import BinaryColumn, validity
from millstream.arrow.byte_memory import ByteMemory
from millstream.arrow.kernels.compiled import Bytes, Ends, Flags, Ints
from millstream.arrow.kernels.record_kernel import (
    COUNTER_COUNT,
    HEADER_KEY_BYTES,
    HEADER_VALUE_BYTES,
    HEADERS,
    KEY_BYTES,
    OK,
    PROBLEMS,
    ROWS,
    SMALLEST_HEADER,
    VALUE_BYTES,
    WITH_HEADERS,
    WITH_KEY,
    WITH_VALUE,
    HeaderArrays,
    RecordArrays,
    decode_headers,
    decode_records,
)
from millstream.errors import CorruptMessage

ROW_CAPACITY: Final = 65_536
BYTE_CAPACITY: Final = 8 * 1024 * 1024
"""A record batch is handed on before it passes one of these, unless a single batch of the topic is larger."""


_BYTES_PER_VALUE: Final = 5
_SLACK: Final = 4096
"""Where a value ends and whether it is null, and what is lost between arrays."""


class RecordBuffers:
    """The records of one Arrow record batch, appended batch by batch; `wanted` are the kernel's `WITH_...` flags. Where `is_large` much of
    the room will be used."""

    def __init__(self, *, wanted: int, rows: int = ROW_CAPACITY, size_bytes: int = BYTE_CAPACITY, is_large: bool = False) -> None:
        self._wanted = wanted
        self._row_capacity = rows
        self._byte_capacity = size_bytes
        self._used_bytes = 0
        self._counters = np.zeros(COUNTER_COUNT, np.int64)
        with_key, with_value, with_headers = bool(wanted & WITH_KEY), bool(wanted & WITH_VALUE), bool(wanted & WITH_HEADERS)
        keys, values, lists, headers = rows * with_key, rows * with_value, rows * with_headers, size_bytes // SMALLEST_HEADER * with_headers
        memory = ByteMemory(values * _BYTES_PER_VALUE + size_bytes * with_value + _SLACK, is_large=is_large)
        self._key_offsets, self._value_offsets = _offsets(np.empty(keys + 1, np.int32)), _offsets(memory.take(values + 1, np.int32))
        self._header_lists, self._header_keys, self._header_values = (
            _offsets(np.empty(count + 1, np.int32)) for count in (lists, headers, headers)
        )
        self._records = RecordArrays(
            offsets=np.empty(rows, np.int64),
            timestamps=np.empty(rows, np.int64),
            timestamp_types=np.empty(rows, np.int32),
            key_ends=self._key_offsets[1:],
            key_data=np.empty(size_bytes * with_key, np.uint8),
            key_nulls=np.empty(keys, np.bool_),
            value_ends=self._value_offsets[1:],
            value_nulls=memory.take(values, np.bool_),
            value_data=memory.take(size_bytes * with_value, np.uint8),
            header_starts=np.empty(lists, np.int32),
            header_ends=np.empty(lists, np.int32),
        )
        self._headers = HeaderArrays(
            list_ends=self._header_lists[1:],
            list_nulls=np.empty(lists, np.bool_),
            key_ends=self._header_keys[1:],
            key_data=np.empty(size_bytes * with_headers, np.uint8),
            value_ends=self._header_values[1:],
            value_data=np.empty(size_bytes * with_headers, np.uint8),
            value_nulls=np.empty(headers, np.bool_),
        )

    @property
    def rows(self) -> int:
        """How many records there are."""
        return int(self._counters[ROWS])

    def count_fitting(self, rows: Ints, sizes: Ints) -> int:
        """Of batches whose records and bytes have these running totals, how many still fit."""
        by_rows = np.searchsorted(rows, self._row_capacity - self.rows, side="right")
        by_bytes = np.searchsorted(sizes, self._byte_capacity - self._used_bytes, side="right")
        return int(min(by_rows, by_bytes))

    def append(self, data: Bytes, batches: Ints, *, first_offset: int, end_offset: int, size_bytes: int) -> None:
        """Decode batches of at most `size_bytes`, for which there is room; `CorruptMessage` says what is wrong with them."""
        first_row = self.rows
        # Without numba a number that overflows is an error; with it, as here, it is out of range in some other way or harmless.
        with np.errstate(over="ignore"):
            code = decode_records(data, batches, first_offset, end_offset, self._wanted, self._counters, self._records)
        if code != OK:
            raise CorruptMessage(PROBLEMS[int(code)])
        if self._wanted & WITH_HEADERS:
            decode_headers(data, first_row, self._counters, self._records, self._headers)
        self._used_bytes += size_bytes

    def keys(self) -> BinaryColumn:
        """The keys."""
        return self._column(self._key_offsets, self._records.key_data, self._records.key_nulls, KEY_BYTES)

    def values(self) -> BinaryColumn:
        """The values."""
        return self._column(self._value_offsets, self._records.value_data, self._records.value_nulls, VALUE_BYTES)

    def offsets(self) -> Ints:
        """The offset of each record."""
        return self._records.offsets[: self.rows]

    def timestamps_us(self) -> Ints:
        """The time of each record."""
        return self._records.timestamps[: self.rows]

    def timestamp_types(self) -> Ends:
        """For each record whether its time is its producer's (0) or the broker's (1)."""
        return self._records.timestamp_types[: self.rows]

    def headers(self, kind: pa.DataType) -> pa.Array:
        """The headers, as a list of that type; a record without headers has a null, as in Spark's own connector."""
        count = int(self._counters[HEADERS])
        no_nulls = np.zeros(count, np.bool_)
        names = BinaryColumn(self._header_keys[: count + 1], self._headers.key_data[: self._counters[HEADER_KEY_BYTES]], no_nulls)
        contents = BinaryColumn(
            self._header_values[: count + 1],
            self._headers.value_data[: self._counters[HEADER_VALUE_BYTES]],
            self._headers.value_nulls[:count],
        )
        struct = kind.value_type
        entries = pa.Array.from_buffers(struct, count, [None], children=[_as_text(names), contents.to_arrow()])
        list_nulls = self._headers.list_nulls[: self.rows]
        buffers = [validity(list_nulls), pa.py_buffer(self._header_lists[: self.rows + 1])]
        return pa.Array.from_buffers(kind, self.rows, buffers, children=[entries])

    def _column(self, offsets: Ends, data: Bytes, is_null: Flags, size: int) -> BinaryColumn:
        return BinaryColumn(offsets[: self.rows + 1], data[: self._counters[size]], is_null[: self.rows])


def arrow_numbers(numbers: Ints | Ends, kind: pa.DataType) -> pa.Array:
    """An Arrow array of numbers, sharing their bytes."""
    return pa.Array.from_buffers(kind, len(numbers), [None, pa.py_buffer(numbers)])


def _offsets(numbers: Ends) -> Ends:
    numbers[0] = 0
    return numbers


def _as_text(names: BinaryColumn) -> pa.Array:
    """Names of headers; bytes that are not UTF-8 are replaced, as Java's clients replace them."""
    text = names.to_arrow(pa.string())
    try:
        text.validate(full=True)
    except pa.ArrowInvalid:
        raw: Sequence[bytes] = names.to_arrow().to_pylist()
        return pa.array([name.decode(errors="replace") for name in raw], pa.string())
    return text
