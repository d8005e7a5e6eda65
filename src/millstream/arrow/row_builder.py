"""Gathered records of one partition to an Arrow record batch, of exactly the schema that was asked for.

Topic and partition are the same in every row, so their arrays are made once per length and cut. `mode` decides what becomes of keys and
values that are not what their format says.
"""

from collections.abc import Mapping

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from millstream.arrow.binary_columns import BinaryColumn
from millstream.arrow.columns import CORRUPT_COLUMNS, Field, Mode
from millstream.arrow.field_decoding import FieldFormat, TypedColumn
from millstream.arrow.kernels.record_kernel import WITH_HEADERS, WITH_KEY, WITH_VALUE
from millstream.arrow.record_buffers import ROW_CAPACITY, RecordBuffers, arrow_numbers
from millstream.errors import MillstreamError
from millstream.topic_partition import TopicPartition


class MalformedMessage(MillstreamError):
    """A key or value is not what its format says, and `mode` is FAILFAST."""


class RowBuilder:
    """Makes the rows of one partition. `formats` has those of keys and values that are among the columns."""

    def __init__(self, schema: pa.Schema, place: TopicPartition, *, formats: Mapping[Field, FieldFormat], mode: Mode = "FAILFAST") -> None:
        self._schema = schema
        self._place = place
        self._formats = formats
        self._mode = mode
        self._constants: dict[str, pa.Array] = {}

    @property
    def wanted(self) -> int:
        """Which parts of a record the kernel has to take, as its flags."""
        flags = {"key": WITH_KEY, "value": WITH_VALUE}
        return sum(flags[field] for field in self._formats) + WITH_HEADERS * ("headers" in self._schema.names)

    def build(self, records: RecordBuffers) -> pa.RecordBatch:
        """The rows of these records."""
        typed = {field: format_.read(_field(records, field)) for field, format_ in self._formats.items()}
        broken = {field: column.broken for field, column in typed.items() if column.broken is not None}
        if broken and self._mode == "FAILFAST":
            self._complain(records, typed)
        arrays = [self._array(name, records, typed) for name in self._schema.names]
        batch = pa.RecordBatch.from_arrays(arrays, schema=self._schema)
        if broken and self._mode == "DROPMALFORMED":
            batch = batch.filter(pa.array(~np.logical_or.reduce(list(broken.values()))))
        return batch

    def _array(self, name: str, records: RecordBuffers, typed: dict[Field, TypedColumn]) -> pa.Array:
        match name:
            case "key" | "value":
                return typed[name].array
            case "topic" | "partition":
                return self._constant(name, records.rows)
            case "offset":
                return arrow_numbers(records.offsets(), pa.int64())
            case "timestamp":
                return arrow_numbers(records.timestamps_us(), self._schema.field(name).type)
            case "timestampType":
                return arrow_numbers(records.timestamp_types(), pa.int32())
            case "headers":
                return records.headers(self._schema.field(name).type)
            case _:
                return self._corrupt_bytes(CORRUPT_COLUMNS[name], records, typed)

    def _constant(self, name: str, rows: int) -> pa.Array:
        array = self._constants.get(name)
        if array is None or len(array) < rows:
            length = max(rows, ROW_CAPACITY)
            if name == "topic":
                array = _repeat_text(self._place.topic, length)
            else:
                array = arrow_numbers(np.full(length, self._place.partition, np.int32), pa.int32())
            self._constants[name] = array
        return array.slice(0, rows)

    def _corrupt_bytes(self, field: Field, records: RecordBuffers, typed: dict[Field, TypedColumn]) -> pa.Array:
        broken = typed[field].broken
        if broken is None:
            return pa.nulls(records.rows, pa.binary())
        raw = _field(records, field).to_arrow()
        return pc.if_else(pa.array(broken), raw, pa.scalar(None, pa.binary()))

    def _complain(self, records: RecordBuffers, typed: dict[Field, TypedColumn]) -> None:
        for field, column in typed.items():
            for row in np.flatnonzero(column.broken)[:1] if column.broken is not None else ():
                raise MalformedMessage(
                    f"the {field} at offset {records.offsets()[row]} of {self._place} cannot be read as {self._formats[field].name}: "
                    f"{column.explain(int(row))}. "
                    "With the option mode = PERMISSIVE such bytes come in a column of their own, with DROPMALFORMED their rows are left out"
                )


def _field(records: RecordBuffers, field: Field) -> BinaryColumn:
    return records.keys() if field == "key" else records.values()


def _repeat_text(text: str, count: int) -> pa.Array:
    encoded = np.frombuffer(text.encode(), np.uint8)
    offsets = np.arange(count + 1, dtype=np.int32) * np.int32(len(encoded))
    return pa.Array.from_buffers(pa.string(), count, [None, pa.py_buffer(offsets), pa.py_buffer(np.tile(encoded, count))])
