"""Gathered records of one partition to the Arrow record batch that Spark takes.

Its schema is exactly what Spark expects, or Spark refuses it. Topic and partition are the same in every row, so their arrays are made once
per length and cut. `mode` decides what becomes of keys and values that are not what their format says.
"""

from typing import TYPE_CHECKING, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql.pandas.types import to_arrow_schema

from millstream.errors import MillstreamError
from millstream.spark.formats.field_formats import TypedColumn, make_format
from millstream.spark.formats.record_buffers import ROW_CAPACITY, RecordBuffers, arrow_numbers
from millstream.spark.kernels.record_kernel import WITH_HEADERS, WITH_KEY, WITH_VALUE
from millstream.spark.options import Field
from millstream.spark.source.read_plan import CORRUPT_COLUMNS, ReadPlan
from millstream.topic_partition import TopicPartition

if TYPE_CHECKING:
    from pyspark.sql.types import StructType

_FIELDS: Final[tuple[Field, ...]] = ("key", "value")


class MalformedMessage(MillstreamError):
    """A key or value is not what its format says, and `mode` is FAILFAST."""


class RowBuilder:
    """Makes the rows of one partition for one task."""

    def __init__(self, plan: ReadPlan, schema: "StructType", place: TopicPartition) -> None:
        self._plan = plan
        self._place = place
        self._schema = to_arrow_schema(schema, timezone="UTC")
        self._read = [field for field in _FIELDS if field in self._schema.names]
        self._formats = {field: make_format(plan, plan.field(field), self._schema.field(field).type) for field in self._read}
        self._constants: dict[str, pa.Array] = {}

    @property
    def wanted(self) -> int:
        """Which parts of a record the kernel has to take, as its flags."""
        flags = {"key": WITH_KEY, "value": WITH_VALUE}
        return sum(flags[field] for field in self._read) + WITH_HEADERS * ("headers" in self._schema.names)

    def build(self, records: RecordBuffers) -> "pa.RecordBatch":
        """The rows of these records."""
        typed = {field: self._formats[field].read(records.keys() if field == "key" else records.values()) for field in self._read}
        broken = {field: column.broken for field, column in typed.items() if column.broken is not None}
        if broken and self._plan.mode == "FAILFAST":
            self._complain(records, typed)
        arrays = [self._array(name, records, typed) for name in self._schema.names]
        batch = pa.RecordBatch.from_arrays(arrays, schema=self._schema)
        if broken and self._plan.mode == "DROPMALFORMED":
            keep = np.bitwise_or.reduce(list(broken.values())) == 0
            batch = batch.filter(pa.array(keep))
        return batch

    def _array(self, name: str, records: RecordBuffers, typed: dict[Field, TypedColumn]) -> "pa.Array":
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

    def _constant(self, name: str, rows: int) -> "pa.Array":
        array = self._constants.get(name)
        if array is None or len(array) < rows:
            length = max(rows, ROW_CAPACITY)
            if name == "topic":
                array = _repeat_text(self._place.topic, length)
            else:
                array = arrow_numbers(np.full(length, self._place.partition, np.int32), pa.int32())
            self._constants[name] = array
        return array.slice(0, rows)

    def _corrupt_bytes(self, field: Field, records: RecordBuffers, typed: dict[Field, TypedColumn]) -> "pa.Array":
        broken = typed[field].broken
        if broken is None:
            return pa.nulls(records.rows, pa.binary())
        raw = (records.keys() if field == "key" else records.values()).to_arrow()
        return pc.if_else(pa.array(broken.astype(bool)), raw, pa.scalar(None, pa.binary()))

    def _complain(self, records: RecordBuffers, typed: dict[Field, TypedColumn]) -> None:
        for field, column in typed.items():
            for row in np.flatnonzero(column.broken)[:1] if column.broken is not None else ():
                kind = self._plan.field(field).options.format
                raise MalformedMessage(
                    f"the {field} at offset {records.offsets()[row]} of {self._place} cannot be read as {kind}: "
                    f"{column.explain(int(row))}. "
                    "With the option mode = PERMISSIVE such bytes come in a column of their own, with DROPMALFORMED their rows are left out"
                )


def _repeat_text(text: str, count: int) -> "pa.Array":
    encoded = np.frombuffer(text.encode(), np.uint8)
    offsets = np.arange(count + 1, dtype=np.int32) * np.int32(len(encoded))
    data: npt.NDArray[np.uint8] = np.tile(encoded, count)
    return pa.Array.from_buffers(pa.string(), count, [None, pa.py_buffer(offsets), pa.py_buffer(data)])
