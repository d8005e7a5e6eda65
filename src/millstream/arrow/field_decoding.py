"""Keys and values in a format of a read: bytes to typed columns, and which of them could not be read.

A format gets the bytes of many records at once and gives an Arrow array with as many entries, and a mark for each that is broken; what
becomes of those is not its business. A null is not broken: it stays a null.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple, Protocol

import numpy as np
import pyarrow as pa

from millstream.arrow.binary_columns import BinaryColumn
from millstream.arrow.columns import Format
from millstream.arrow.kernels.compiled import Flags
from millstream.registry.addresses import Addresses


class TypedColumn(NamedTuple):
    """An Arrow array; where it is `broken` the entry is a null and `explain(row)` says why. None: nothing is broken."""

    array: pa.Array
    broken: Flags | None = None
    explain: Callable[[int], str] = str


class FieldFormat(Protocol):
    """One format, set up for one read."""

    @property
    def name(self) -> Format:
        """What people call it."""

    def read(self, column: BinaryColumn) -> TypedColumn:
        """The bytes of many records as a typed column."""


class BinaryFormat:
    """Bytes as they are."""

    name: Format = "binary"

    def read(self, column: BinaryColumn) -> TypedColumn:
        return TypedColumn(column.to_arrow())


class StringFormat:
    """UTF-8."""

    name: Format = "string"

    def read(self, column: BinaryColumn) -> TypedColumn:
        text = column.to_arrow(pa.string())
        try:
            text.validate(full=True)
        except pa.ArrowInvalid:
            return _read_one_by_one(column)
        return TypedColumn(text)


def make_format(name: Format, kind: pa.DataType, *, schemas: Sequence[str] = (), registry: Addresses | None = None) -> FieldFormat:
    """The format of keys or values, for a column of the type `kind`. Avro needs a registry and the schema that all messages are brought
    to: its text, after the texts of the schemas that it refers to."""
    match name:
        case "binary":
            return BinaryFormat()
        case "string":
            return StringFormat()
        case "json":
            from millstream.arrow.json_decoding import JsonFormat  # only who reads JSON needs it

            return JsonFormat(kind)
        case "avro":
            from millstream.arrow.avro.format import avro_format  # only who reads Avro needs it

            assert registry is not None, "the options were checked"
            return avro_format(schemas, registry, kind)


def broken_column(array: pa.Array, problems: Mapping[int, str]) -> TypedColumn:
    """A column with the problems of some of its rows."""
    broken = np.zeros(len(array), np.bool_)
    broken[list(problems)] = True
    return TypedColumn(array, broken, lambda row: problems[row])


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
    return broken_column(pa.array(texts, pa.string()), problems)
