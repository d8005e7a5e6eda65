"""Keys and values in a format: bytes to typed columns, and which of them could not be read.

A format gets the bytes of many records at once and gives an Arrow array with as many entries, and a mark for each that is broken; what
becomes of those is not its business. A null is not broken: it stays a null.
"""

from collections.abc import Callable
from typing import NamedTuple, Protocol

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from millstream.spark.formats.record_buffers import BinaryColumn
from millstream.spark.source.read_plan import ReadField, ReadPlan

Bytes = npt.NDArray[np.uint8]


class TypedColumn(NamedTuple):
    """An Arrow array; where `broken` is 1 the entry is a null and `explain(row)` says why. None: nothing is broken."""

    array: "pa.Array"
    broken: Bytes | None = None
    explain: Callable[[int], str] = str


class FieldFormat(Protocol):
    """One format, set up for one query."""

    def read(self, column: BinaryColumn) -> TypedColumn:
        """The bytes of many records as a typed column."""
        ...


class BinaryFormat:
    """Bytes as they are."""

    def read(self, column: BinaryColumn) -> TypedColumn:
        return TypedColumn(column.to_arrow())


class StringFormat:
    """UTF-8."""

    def read(self, column: BinaryColumn) -> TypedColumn:
        text = column.to_arrow(pa.string())
        try:
            text.validate(full=True)
        except pa.ArrowInvalid:
            return _read_one_by_one(column)
        return TypedColumn(text)


def make_format(plan: ReadPlan, field: ReadField, kind: "pa.DataType") -> FieldFormat:
    """The format of keys or values, for a column of the Arrow type `kind`."""
    match field.options.format:
        case "binary":
            return BinaryFormat()
        case "string":
            return StringFormat()
        case "json":
            from millstream.spark.formats.json_format import JsonFormat  # only who reads JSON needs it

            return JsonFormat(kind)
        case "avro":
            from millstream.spark.formats.avro_format import avro_format  # only who reads Avro needs it

            assert plan.registry is not None, "the options were checked"
            return avro_format(field.avro, plan.registry, kind)


def _read_one_by_one(column: BinaryColumn) -> TypedColumn:
    """The slow way, for the few chunks that have a broken text."""
    problems: dict[int, str] = {}
    texts: list[str | None] = []
    for row, content in enumerate(column.to_arrow().to_pylist()):
        try:
            texts.append(None if content is None else content.decode())
        except UnicodeDecodeError as error:
            texts.append(None)
            problems[row] = f"it is not UTF-8: {error.reason} at byte {error.start}"
    broken = np.zeros(len(texts), np.uint8)
    broken[list(problems)] = 1
    return TypedColumn(pa.array(texts, pa.string()), broken, lambda row: problems[row])
