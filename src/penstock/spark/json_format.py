"""JSON objects, one per message, to a struct column of the type that the query gives.

Members that the type does not have are ignored, those that are missing are null, and a message with a member of another type is broken,
whole. What becomes what:

    numbers       int types and decimals take whole numbers that fit, decimals also fractions and text; float and double take any number
    string        text; anything else comes as its JSON text, as in Spark's from_json
    binary        base64
    date          "2026-11-15"
    timestamp     "2026-11-15T09:30:00Z"; without a zone it is UTC
    array, map, struct

Every message is parsed by Python's own parser: of the formats this is the one that makes objects per record. Where that is too slow, read
strings and let Spark's from_json work in the JVM.
"""

import json
from base64 import b64decode
from collections.abc import Callable
from datetime import UTC, date, datetime
from decimal import Decimal, InvalidOperation
from typing import Any, Final

import numpy as np
import pyarrow as pa

from penstock.spark.field_formats import TypedColumn
from penstock.spark.record_buffers import BinaryColumn

Convert = Callable[[Any], Any]


class JsonFormat:
    """Reads objects as a struct of the Arrow type `kind`."""

    def __init__(self, kind: "pa.DataType") -> None:
        self._kind = kind
        self._convert = _converter(kind)
        self._parse = json.JSONDecoder(parse_float=Decimal, parse_constant=_refuse_constant).decode

    def read(self, column: BinaryColumn) -> TypedColumn:
        problems: dict[int, str] = {}
        values: list[Any] = []
        for row, content in enumerate(column.to_arrow().to_pylist()):
            try:
                values.append(None if content is None else self._read_one(content))
            except (ArithmeticError, TypeError, ValueError, RecursionError) as error:
                values.append(None)
                problems[row] = str(error) or type(error).__name__
        array = pa.array(values, self._kind)
        if not problems:
            return TypedColumn(array)
        broken = np.zeros(len(values), np.uint8)
        broken[list(problems)] = 1
        return TypedColumn(array, broken, lambda row: problems[row])

    def _read_one(self, content: bytes) -> Any:
        value = self._parse(content.decode())
        if not isinstance(value, dict):
            raise TypeError(f"it is not an object but {_name(value)}")
        return self._convert(value)


def _converter(kind: "pa.DataType") -> Convert:
    """What turns a parsed value into one that Arrow takes for the type; raises TypeError or ValueError. Nulls pass everywhere."""
    convert = _converter_of_some(kind)
    return lambda value: None if value is None else convert(value)


def _converter_of_some(kind: "pa.DataType") -> Convert:
    types = pa.types
    if types.is_struct(kind):
        return _struct([(field.name, _converter(field.type)) for field in kind])
    if types.is_list(kind):
        return _list(_converter(kind.value_type))
    if types.is_map(kind):
        return _map(_converter(kind.item_type))
    if types.is_integer(kind):
        return _integer(kind.bit_width)
    if types.is_decimal(kind):
        return _decimal(kind.precision, kind.scale)
    for matches, convert in _SIMPLE:
        if matches(kind):
            return convert
    raise TypeError(f"JSON cannot be read as {kind}")


def _struct(members: list[tuple[str, Convert]]) -> Convert:
    def convert(value: Any) -> Any:
        _expect(value, dict, "an object")
        return {name: convert_member(value.get(name)) for name, convert_member in members}

    return convert


def _list(convert_item: Convert) -> Convert:
    def convert(value: Any) -> Any:
        _expect(value, list, "an array")
        return [convert_item(item) for item in value]

    return convert


def _map(convert_item: Convert) -> Convert:
    def convert(value: Any) -> Any:
        _expect(value, dict, "an object")
        return [(key, convert_item(item)) for key, item in value.items()]

    return convert


def _integer(bits: int) -> Convert:
    most = 1 << (bits - 1)

    def convert(value: Any) -> int:
        if type(value) is not int or not -most <= value < most:
            raise TypeError(f"{_name(value)} is not a whole number of {bits} bits")
        return value

    return convert


def _decimal(precision: int, scale: int) -> Convert:
    def convert(value: Any) -> Decimal:
        if isinstance(value, bool) or not isinstance(value, int | Decimal | str):
            raise TypeError(f"{_name(value)} is not a decimal")
        try:
            number = Decimal(value)
        except InvalidOperation:
            raise TypeError(f"{_name(value)} is not a decimal") from None
        if not number.is_finite() or abs(number) >= Decimal(10) ** (precision - scale) or number != round(number, scale):
            raise TypeError(f"{_name(value)} is not a decimal({precision},{scale})")
        return number

    return convert


def _real(value: Any) -> float:
    if isinstance(value, bool) or not isinstance(value, int | Decimal):
        raise TypeError(f"{_name(value)} is not a number")
    return float(value)


def _boolean(value: Any) -> bool:
    _expect(value, bool, "true or false")
    return bool(value)


def _text(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value, default=_number, ensure_ascii=False, separators=(",", ":"))


def _number(value: Any) -> float:
    assert isinstance(value, Decimal)
    return float(value)


def _binary(value: Any) -> bytes:
    _expect(value, str, "base64 text")
    return b64decode(value, validate=True)


def _date(value: Any) -> date:
    _expect(value, str, "a date")
    return date.fromisoformat(value)


def _timestamp(value: Any) -> datetime:
    _expect(value, str, "a time")
    time = datetime.fromisoformat(value)
    return time if time.tzinfo else time.replace(tzinfo=UTC)


def _local_timestamp(value: Any) -> datetime:
    _expect(value, str, "a time")
    return datetime.fromisoformat(value).replace(tzinfo=None)


def _expect(value: Any, kind: type, what: str) -> None:
    if not isinstance(value, kind):
        raise TypeError(f"{_name(value)} is not {what}")


def _name(value: Any) -> str:
    text = _text(value) if not isinstance(value, str) else json.dumps(value)
    return text if len(text) <= 40 else text[:37] + "..."


def _refuse_constant(name: str) -> None:
    raise ValueError(f"{name} is not JSON")


_SIMPLE: Final = (
    (pa.types.is_boolean, _boolean),
    (pa.types.is_floating, _real),
    (pa.types.is_string, _text),
    (pa.types.is_binary, _binary),
    (pa.types.is_date, _date),
    (lambda kind: pa.types.is_timestamp(kind) and kind.tz is not None, _timestamp),
    (pa.types.is_timestamp, _local_timestamp),
)
