"""From JSON, as `consume` writes Avro values, back to what Avro's encoder takes. Pure.

What JSON cannot hold is text there, and the schema says what it stands for: times as ISO dates, decimals as digits, bytes as text or
{"base64": ...}. Of a union the first branch is taken that the value fits. A name that the record has no field for is a mistake.
"""

import base64
from collections.abc import Callable
from datetime import date, datetime, time
from decimal import Decimal, InvalidOperation
from typing import Any, Final
from uuid import UUID

from millstream.avro.schema import NO_DEFAULT, Array, Fixed, Map, Primitive, Record, Schema, Union, logical_type

_PYTHON: Final[dict[str, tuple[type, ...]]] = {
    "boolean": (bool,),
    "int": (int,),
    "long": (int,),
    "float": (int, float, str),
    "double": (int, float, str),
    "string": (str,),
    "bytes": (str, dict),
    "fixed": (str, dict),
    "enum": (str,),
    "array": (list,),
    "map": (dict,),
    "record": (dict,),
}
_FROM_TEXT: Final[dict[str, Callable[[str], Any]]] = {
    "date": date.fromisoformat,
    "time-millis": time.fromisoformat,
    "time-micros": time.fromisoformat,
    "uuid": UUID,
}


def from_json(schema: Schema, value: Any, where: str = "the value") -> Any:
    """What the encoder takes for a JSON value; ValueError says where it does not fit the schema."""
    match schema:
        case Union():
            return _of_union(schema, value, where)
        case Record():
            return _of_record(schema, value, where)
        case Array() if isinstance(value, list):
            return [from_json(schema.items, each, f"{where}[{index}]") for index, each in enumerate(value)]
        case Map() if isinstance(value, dict):
            return {name: from_json(schema.values, each, f"{where}.{name}") for name, each in value.items()}
        case Primitive() | Fixed():
            return _of_logical(schema, value, where)
    return value


def _of_record(schema: Record, value: Any, where: str) -> Any:
    if not isinstance(value, dict):
        raise ValueError(f"{where} must be an object with the fields of {schema.fullname}, and is {_kind(value)}")  # noqa: TRY004 - of the input
    fields = {field.name: field for field in schema.fields}
    for name in value.keys() - fields.keys():
        raise ValueError(f"{where} has a field {name!r}, which {schema.fullname} does not know")
    for name, field in fields.items():
        if name not in value and field.default is NO_DEFAULT:
            raise ValueError(f"{where} lacks the field {name!r} of {schema.fullname}")
    return {name: from_json(fields[name].schema, each, f"{where}.{name}") for name, each in value.items()}


def _of_union(schema: Union, value: Any, where: str) -> Any:
    reasons = []
    for branch in schema.branches:
        if not _may_be(branch, value):
            continue
        try:
            converted = from_json(branch, value, where)
        except ValueError as error:
            reasons.append(str(error))
            continue
        return (branch.fullname, converted) if isinstance(branch, Record) else converted
    raise ValueError("; ".join(reasons) or f"{where} is {_kind(value)}, which fits none of the types of its union")


def _may_be(schema: Schema, value: Any) -> bool:
    if value is None or schema.kind == "null":
        return value is None and schema.kind == "null"
    if isinstance(value, bool) is not (schema.kind == "boolean"):
        return False
    # Times and decimals are text here, or the number that they are written as.
    return isinstance(value, (*_PYTHON[schema.kind], *((str,) if logical_type(schema) is not None else ())))


def _of_logical(schema: Primitive | Fixed, value: Any, where: str) -> Any:
    name = logical_type(schema)
    try:
        if name == "decimal" and isinstance(value, str | int | float):
            return Decimal(str(value))
        if name is not None and isinstance(value, str):
            return datetime.fromisoformat(value) if "timestamp" in name else _FROM_TEXT.get(name, str)(value)
        if schema.kind in ("bytes", "fixed"):
            return _bytes(value)
        return float(value) if schema.kind in ("float", "double") and isinstance(value, str) else value
    except (ValueError, TypeError, InvalidOperation, KeyError):
        raise ValueError(f"{where} is {value!r:.60}, which is no {name or schema.kind}") from None


def _bytes(value: Any) -> bytes:
    return base64.b64decode(value["base64"], validate=True) if isinstance(value, dict) else str(value).encode()


def _kind(value: Any) -> str:
    return {type(None): "null", bool: "a boolean", str: "text", list: "a list", dict: "an object"}.get(type(value), "a number")
