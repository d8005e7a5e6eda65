"""JSON objects, one per message, to a struct column of the type that the query gives.

Members that the type does not have are ignored, those that are missing are null, and a message with a member of another type is broken,
whole. What becomes what:

    numbers       int types and decimals take whole numbers that fit, decimals also fractions and text; float and double take any number,
                  and "NaN", "Infinity" and "-Infinity", as the sink and Spark's to_json write them
    string        text; anything else comes as its JSON text, numbers digit by digit, as in Spark's from_json
    binary        base64
    date          "2026-11-15"
    timestamp     "2026-11-15T09:30:00Z"; without a zone it is UTC
    array, map, struct

Whatever one message has in it, it breaks no other: what Arrow does not take is found and broken as well.

Every message is parsed by Python's own parser: of the formats this is the one that makes objects per record. Where that is too slow, read
strings and let Spark's from_json work in the JVM.
"""

import json
from base64 import b64decode
from collections.abc import Callable
from datetime import UTC, date, datetime
from decimal import Context, Decimal, Inexact, InvalidOperation
from typing import Any, Final, Self

import pyarrow as pa

from millstream.arrow.binary_columns import BinaryColumn
from millstream.arrow.columns import Format
from millstream.arrow.field_decoding import TypedColumn, broken_column

Convert = Callable[[Any], Any]

_REFUSALS: Final = (ArithmeticError, TypeError, ValueError, RecursionError, pa.ArrowException)
"""How a value says that it is not of its type: our converters, Python's parser and types, and Arrow."""
_EXACT: Final = Context(prec=100, traps=[Inexact, InvalidOperation])
"""More digits than any decimal of Spark's has on both sides of the point."""


class JsonFormat:
    """Reads objects as a struct of the Arrow type `kind`."""

    name: Format = "json"

    def __init__(self, kind: pa.DataType) -> None:
        self._kind = kind
        self._convert = _converter(kind)
        self._parse = json.JSONDecoder(parse_float=_Number, parse_constant=_refuse_constant).decode

    def read(self, column: BinaryColumn) -> TypedColumn:
        problems: dict[int, str] = {}
        values = _each(self._read_one, column.to_arrow().to_pylist(), problems)
        try:
            array = pa.array(values, self._kind)
        except _REFUSALS:
            _each(lambda value: pa.array([value], self._kind), values, problems)
            array = pa.array([None if row in problems else value for row, value in enumerate(values)], self._kind)
        return broken_column(array, problems) if problems else TypedColumn(array)

    def _read_one(self, content: bytes) -> Any:
        value = self._parse(content.decode())
        if not isinstance(value, dict):
            raise TypeError(f"it is not an object but {_name(value)}")
        return self._convert(value)


class _Number(Decimal):
    """A number with a fraction or an exponent, and how it was written."""

    __slots__ = ("text",)
    text: str

    def __new__(cls, text: str) -> Self:
        number = Decimal.__new__(cls, text)
        number.text = text
        return number


def _each(convert: Convert, values: list[Any], problems: dict[int, str]) -> list[Any]:
    """The values, converted, with a null for each that refuses; `problems` then has why."""
    converted: list[Any] = []
    for row, value in enumerate(values):
        try:
            converted.append(None if value is None else convert(value))
        except _REFUSALS as error:
            converted.append(None)
            problems[row] = str(error) or type(error).__name__
    return converted


def _converter(kind: pa.DataType, *, nullable: bool = True) -> Convert:
    """What turns a parsed value into one that Arrow takes for the type; raises one of `_REFUSALS`. Nulls pass where the type takes them."""
    convert = _converter_of_some(kind)
    if nullable:
        return lambda value: None if value is None else convert(value)

    def convert_some(value: Any) -> Any:
        if value is None:
            raise TypeError(f"there is a null, or nothing, where the schema has {kind} NOT NULL")
        return convert(value)

    return convert_some


def _converter_of_some(kind: pa.DataType) -> Convert:
    types = pa.types
    if types.is_struct(kind):
        return _struct([(field.name, _converter(field.type, nullable=field.nullable)) for field in kind])
    if types.is_list(kind):
        return _list(_converter(kind.value_type, nullable=kind.value_field.nullable))
    if types.is_map(kind) and types.is_string(kind.key_type):
        return _map(_converter(kind.item_type, nullable=kind.item_field.nullable))
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
    limit, last_digit = Decimal((0, (1,), precision - scale)), Decimal((0, (1,), -scale))

    def convert(value: Any) -> Decimal:
        if isinstance(value, bool) or not isinstance(value, int | Decimal | str):
            raise TypeError(f"{_name(value)} is not a decimal")
        try:
            number = value if isinstance(value, Decimal) else Decimal(value)
        except InvalidOperation:
            raise TypeError(f"{_name(value)} is not a decimal") from None
        # Comparing is exact at any length; only a number of the right size has its digits counted.
        if not number.is_finite() or number.copy_abs() >= limit:
            raise TypeError(f"{_name(value)} is not a decimal({precision},{scale})")
        try:
            return number.quantize(last_digit, context=_EXACT)
        except (Inexact, InvalidOperation):
            raise TypeError(f"{_name(value)} is not a decimal({precision},{scale})") from None

    return convert


def _real(value: Any) -> float:
    if value in ("NaN", "Infinity", "-Infinity"):
        return float(value)
    if isinstance(value, bool) or not isinstance(value, int | Decimal):
        raise TypeError(f"{_name(value)} is not a number")
    return float(value)


def _boolean(value: Any) -> bool:
    _expect(value, bool, "true or false")
    return bool(value)


def _text(value: Any) -> str:
    return value if isinstance(value, str) else _json_text(value)


def _json_text(value: Any) -> str:
    """A parsed value as JSON, with its numbers as they were written."""
    match value:
        case _Number():
            return value.text
        case dict():
            return "{" + ",".join(f"{_json_text(key)}:{_json_text(item)}" for key, item in value.items()) + "}"
        case list():
            return "[" + ",".join(map(_json_text, value)) + "]"
        case _:
            return json.dumps(value, ensure_ascii=False)


def _binary(value: Any) -> bytes:
    _expect(value, str, "base64 text")
    return b64decode(value, validate=True)


def _date(value: Any) -> date:
    _expect(value, str, "a date")
    return date.fromisoformat(value)


def _timestamp(value: Any) -> datetime:
    _expect(value, str, "a time")
    time = datetime.fromisoformat(value)
    try:
        return time.astimezone(UTC) if time.tzinfo else time.replace(tzinfo=UTC)
    except OverflowError:
        raise ValueError(f"{_name(value)} is, in UTC, not between the years 1 and 9999") from None


def _local_timestamp(value: Any) -> datetime:
    _expect(value, str, "a time")
    return datetime.fromisoformat(value).replace(tzinfo=None)


def _expect(value: Any, kind: type, what: str) -> None:
    if not isinstance(value, kind):
        raise TypeError(f"{_name(value)} is not {what}")


def _name(value: Any) -> str:
    # Half of a surrogate pair has no place in a message either.
    text = _json_text(value).encode(errors="backslashreplace").decode()
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
