"""Avro schemas for columns of Spark: derived from the columns, or read from text with all named types written out.

What may be null becomes a union of null and the type with the default null, so that columns can be added and dropped later. A struct is a
record named after the path to it: `orders_value`, and `orders_value_address` for its column `address`; what a name of Avro may not have
is a `_`, also before a digit. The same columns always give the same schema, so a registry that has it gives back the same id.
"""

import json
import re
from collections.abc import Iterable
from itertools import chain, count
from typing import Any, Final

from fastavro.schema import SchemaParseException, UnknownType, parse_schema
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    BooleanType,
    ByteType,
    DataType,
    DateType,
    DecimalType,
    DoubleType,
    FloatType,
    IntegerType,
    LongType,
    MapType,
    ShortType,
    StringType,
    StructType,
    TimestampNTZType,
    TimestampType,
    TimeType,
)

from millstream.spark.formats.avro_encoding import AvroMismatch, Schema

_SIMPLE: Final[dict[type[DataType], Any]] = {
    BooleanType: "boolean",
    ByteType: "int",
    ShortType: "int",
    IntegerType: "int",
    LongType: "long",
    FloatType: "float",
    DoubleType: "double",
    StringType: "string",
    BinaryType: "bytes",
    DateType: {"type": "int", "logicalType": "date"},
    TimestampType: {"type": "long", "logicalType": "timestamp-micros"},
    TimestampNTZType: {"type": "long", "logicalType": "local-timestamp-micros"},
    TimeType: {"type": "long", "logicalType": "time-micros"},
}
_NAME: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


def derive_schema(data_type: DataType, name: str) -> str:
    """The Avro schema of a type of Spark, as text; `name` is the name of the record, if it is one."""
    path = re.sub(r"\W", "_", name, flags=re.ASCII)
    return json.dumps(_Deriver().derive(data_type, f"_{path}" if path[:1].isdigit() else path))


def read_schema(text: str, *, referenced: Iterable[str] = (), where: str) -> Schema:
    """A schema from its text; `referenced` are the schemas that it refers to, those that others need first."""
    named: dict[str, Any] = {}
    try:
        for other in referenced:
            parse_schema(json.loads(other), named_schemas=named)
        parsed: Schema = parse_schema(json.loads(text), named_schemas=named, expand=True, _write_hint=False)
    except (ValueError, KeyError, SchemaParseException, UnknownType) as error:
        raise AvroMismatch(where, f"this is not a schema of Avro: {error}") from None
    except RecursionError:
        raise AvroMismatch(where, "a schema that contains itself cannot be written from columns") from None
    return parsed


class _Deriver:
    """Derives one schema; knows the names that its records have so far."""

    def __init__(self) -> None:
        self._names: set[str] = set()

    def derive(self, data_type: DataType, path: str) -> Any:
        """The schema of a type at a path."""
        if isinstance(data_type, StructType):
            name = self._new_name(_checked(path))
            return {"type": "record", "name": name, "fields": [self._field(field, path) for field in data_type.fields]}
        if isinstance(data_type, ArrayType):
            return {"type": "array", "items": _nullable(self.derive(data_type.elementType, path), is_nullable=data_type.containsNull)}
        if isinstance(data_type, MapType):
            if not isinstance(data_type.keyType, StringType):
                raise AvroMismatch(path, f"a map of Avro has strings for keys, not {data_type.keyType.simpleString()}")
            return {"type": "map", "values": _nullable(self.derive(data_type.valueType, path), is_nullable=data_type.valueContainsNull)}
        if isinstance(data_type, DecimalType):
            return {"type": "bytes", "logicalType": "decimal", "precision": data_type.precision, "scale": data_type.scale}
        simple = _SIMPLE.get(type(data_type))
        if simple is None:
            raise AvroMismatch(path, f"Avro has no type for {data_type.simpleString()}: cast it in Spark")
        return simple

    def _field(self, field: Any, path: str) -> dict[str, Any]:
        derived = _nullable(self.derive(field.dataType, f"{path}_{field.name}"), is_nullable=field.nullable)
        named = {"name": _checked(field.name), "type": derived}
        return named | {"default": None} if field.nullable else named

    def _new_name(self, path: str) -> str:
        """The path, or, where the paths of two structs look alike (`a.b` beside `a_b`), the path with a number."""
        numbered = (f"{path}_{number}" for number in count(2))
        name = next(name for name in chain([path], numbered) if name not in self._names)
        self._names.add(name)
        return name


def _nullable(schema: Any, *, is_nullable: bool) -> Any:
    return ["null", schema] if is_nullable else schema


def _checked(name: str) -> str:
    if not _NAME.fullmatch(name):
        raise AvroMismatch(name, "a name of Avro has letters, digits and '_' and does not begin with a digit: rename the column")
    return name
