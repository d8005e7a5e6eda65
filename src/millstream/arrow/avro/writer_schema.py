"""Avro schemas for columns: derived from the columns, or read from text.

What may be null becomes a union of null and the type with the default null, so that columns can be added and dropped later. A struct is a
record named after the path to it: `orders_value`, and `orders_value_address` for its column `address`; what a name of Avro may not have
is a `_`, also before a digit. The same columns always give the same schema, so a registry that has it gives back the same id.
"""

import json
import re
from collections.abc import Iterable
from itertools import chain, count
from typing import Any, Final

import pyarrow as pa

from millstream.arrow.avro.column_types import BadSchema, arrow_type, parse_avro
from millstream.arrow.avro.encoding import AvroMismatch
from millstream.arrow.binary_columns import is_binary, is_text
from millstream.avro.parser import NAME
from millstream.avro.schema import Schema

_SIMPLE: Final[tuple[tuple[Any, Any], ...]] = (
    (pa.types.is_boolean, "boolean"),
    (lambda kind: pa.types.is_signed_integer(kind) and kind.bit_width <= 32, "int"),
    (pa.types.is_int64, "long"),
    (pa.types.is_float32, "float"),
    (pa.types.is_float64, "double"),
    (is_text, "string"),
    (is_binary, "bytes"),
    (pa.types.is_date32, {"type": "int", "logicalType": "date"}),
    (lambda kind: pa.types.is_timestamp(kind) and kind.tz is not None, {"type": "long", "logicalType": "timestamp-micros"}),
    (pa.types.is_timestamp, {"type": "long", "logicalType": "local-timestamp-micros"}),
    (pa.types.is_time64, {"type": "long", "logicalType": "time-micros"}),
)
_DISGUISED: Final = {b"variant", b"geometry", b"geography"}
"""What Spark says in the metadata of a field about a struct around it that is none."""


def derive_schema(kind: pa.DataType, name: str) -> str:
    """The Avro schema of a type of Arrow, as text; `name` is the name of the record, if it is one."""
    path = re.sub(r"\W", "_", name, flags=re.ASCII)
    return json.dumps(_Deriver().derive(kind, f"_{path}" if path[:1].isdigit() else path))


def read_schema(text: str, *, referenced: Iterable[str] = (), where: str) -> Schema:
    """A schema from its text; `referenced` are the schemas that it refers to, those that others need first."""
    try:
        schema = parse_avro([*referenced, text])
        arrow_type(schema)
    except BadSchema as error:
        raise AvroMismatch(where, f"rows cannot be written by this schema: {error}") from None
    return schema


class _Deriver:
    """Derives one schema; knows the names that its records have so far."""

    def __init__(self) -> None:
        self._names: set[str] = set()

    def derive(self, kind: pa.DataType, path: str) -> Any:
        """The schema of a type at a path."""
        types = pa.types
        if types.is_struct(kind) and not any(_DISGUISED & (field.metadata or {}).keys() for field in kind):
            name = self._new_name(_checked(path))
            return {"type": "record", "name": name, "fields": [self._field(field, path) for field in kind]}
        if types.is_list(kind) or types.is_large_list(kind):
            return {"type": "array", "items": self._nullable(kind.value_field, path)}
        if types.is_map(kind):
            if not types.is_string(kind.key_type):
                raise AvroMismatch(path, f"a map of Avro has strings for keys, not {kind.key_type}")
            return {"type": "map", "values": self._nullable(kind.item_field, path)}
        if types.is_decimal128(kind):
            return {"type": "bytes", "logicalType": "decimal", "precision": kind.precision, "scale": kind.scale}
        simple = next((schema for is_kind, schema in _SIMPLE if is_kind(kind)), None)
        if simple is None:
            raise AvroMismatch(path, f"Avro has no type for {kind}: cast it in Spark")
        return simple

    def _field(self, field: pa.Field, path: str) -> dict[str, Any]:
        derived = {"name": _checked(field.name), "type": self._nullable(field, f"{path}_{field.name}")}
        return derived | {"default": None} if field.nullable else derived

    def _nullable(self, field: pa.Field, path: str) -> Any:
        derived = self.derive(field.type, path)
        return ["null", derived] if field.nullable else derived

    def _new_name(self, path: str) -> str:
        """The path, or, where the paths of two structs look alike (`a.b` beside `a_b`), the path with a number."""
        numbered = (f"{path}_{number}" for number in count(2))
        name = next(name for name in chain([path], numbered) if name not in self._names)
        self._names.add(name)
        return name


def _checked(name: str) -> str:
    if not NAME.fullmatch(name):
        raise AvroMismatch(name, "a name of Avro has letters, digits and '_' and does not begin with a digit: rename the column")
    return name
