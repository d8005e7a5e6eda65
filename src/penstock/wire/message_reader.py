"""Bytes to kio's objects, for every message that has no codec of its own.

A reader is compiled once per schema into closures. It believes nothing: lengths and counts are compared with the bytes left before
anything is allocated, all arrays of a message together may hold only so many elements (an element of three bytes becomes an object of two
hundred), unknown tagged fields are skipped as KIP-482 demands, and every complaint is a `MalformedFrame`.

Where kio would fail on a value that the protocol allows, this reader goes on: an error code that is newer than kio stays a number, a
duration that is too long for `timedelta` becomes the longest.
"""

import struct
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from functools import cache
from typing import Any, Final
from uuid import UUID

from penstock.errors import MalformedFrame
from penstock.wire.primitives import ZERO_UUID, check_left, read_int16, read_int32, read_tags, read_text, read_unsigned_varint
from penstock.wire.schema import ENTITY, NUMBER_FORMATS, Field, Schema


class Budget:
    """How many elements of arrays a message may still have."""

    __slots__ = ("left",)

    def __init__(self, elements: int) -> None:
        self.left = elements

    def spend(self, count: int) -> None:
        """Take `count` elements, or complain that there are too many."""
        self.left -= count
        if self.left < 0:
            raise MalformedFrame("the message has more array elements than this broker reads from one message")


Reader = Callable[[memoryview, int, Budget], tuple[Any, int]]

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)


@cache
def message_reader(schema: Schema) -> Reader:
    """A reader of the whole message or structure."""
    untagged = [(field.name, _field_reader(schema, field)) for field in schema.fields if field.tag is None]
    tagged = {field.tag: (field.name, _field_reader(schema, field)) for field in schema.fields if field.tag is not None}
    defaults = {field.name: field.default for field in schema.fields if field.tag is not None}
    entity, is_flexible = schema.entity, schema.is_flexible

    def read(buffer: memoryview, position: int, budget: Budget) -> tuple[Any, int]:
        values = defaults.copy()
        for name, read_field in untagged:
            values[name], position = read_field(buffer, position, budget)
        if is_flexible:
            tags, position = read_tags(buffer, position)
            for tag, start, end in tags:
                if tag in tagged:
                    name, read_field = tagged[tag]
                    values[name], _ = read_field(buffer[:end], start, budget)
        return entity(**values), position

    return read


def _field_reader(schema: Schema, field: Field) -> Reader:
    if field.is_array:
        return _array_reader(schema, field)
    if field.nested is not None:
        read_entity = message_reader(field.nested)
        # A structure that may be null is preceded by a byte that says so (KIP-893); a tagged one is null by not being there.
        return _nullable_entity_reader(read_entity) if field.is_nullable and field.tag is None else read_entity
    return _value_reader(schema, field, is_nullable=field.is_nullable)


def _array_reader(schema: Schema, field: Field) -> Reader:
    element_size = schema.smallest_element(field)
    is_flexible, is_nullable = schema.is_flexible, field.is_nullable
    read_element = message_reader(field.nested) if field.nested is not None else _value_reader(schema, field, is_nullable=False)

    def read(buffer: memoryview, position: int, budget: Budget) -> tuple[Any, int]:
        count, position = _read_length(buffer, position, is_flexible=is_flexible)
        if count < 0:
            if count == -1 and is_nullable:
                return None, position
            raise MalformedFrame(f"{schema.name}: the array {field.name} cannot have {count} elements")
        if count * element_size > len(buffer) - position:
            raise MalformedFrame(f"{schema.name}: {count} elements of {field.name} do not fit into the {len(buffer) - position} bytes left")
        budget.spend(count)
        elements = []
        for _ in range(count):
            element, position = read_element(buffer, position, budget)
            elements.append(element)
        return tuple(elements), position

    return read


def _nullable_entity_reader(read_entity: Reader) -> Reader:
    def read(buffer: memoryview, position: int, budget: Budget) -> tuple[Any, int]:
        check_left(buffer, position, size=1)
        if buffer[position] >= 0x80:
            return None, position + 1
        return read_entity(buffer, position + 1, budget)

    return read


def _value_reader(schema: Schema, field: Field, *, is_nullable: bool) -> Reader:
    kind = field.kind
    assert kind != ENTITY
    if kind == "uuid":
        return _read_uuid
    if kind in ("string", "bytes", "records"):
        return _text_reader(schema, field, is_nullable=is_nullable)
    number = struct.Struct(NUMBER_FORMATS[kind])
    size, unpack_from = number.size, number.unpack_from
    convert = _converter(field, is_nullable=is_nullable)

    def read(buffer: memoryview, position: int, _: Budget) -> tuple[Any, int]:
        check_left(buffer, position, size=size)
        (value,) = unpack_from(buffer, position)
        return value if convert is None else convert(value), position + size

    return read


def _text_reader(schema: Schema, field: Field, *, is_nullable: bool) -> Reader:
    is_flexible, is_string = schema.is_flexible, field.kind == "string"

    def read(buffer: memoryview, position: int, _: Budget) -> tuple[Any, int]:
        size, position = _read_length(buffer, position, is_flexible=is_flexible, is_short=is_string)
        if size == -1:
            if is_nullable:
                return None, position
            raise MalformedFrame(f"{schema.name}: the field {field.name} cannot be null")
        if is_string:
            return read_text(buffer, position, size=size)
        check_left(buffer, position, size=size)
        end = position + size
        return bytes(buffer[position:end]), end

    return read


def _read_length(buffer: memoryview, position: int, *, is_flexible: bool, is_short: bool = False) -> tuple[int, int]:
    if is_flexible:
        length, position = read_unsigned_varint(buffer, position)
        return length - 1, position
    return read_int16(buffer, position) if is_short else read_int32(buffer, position)


def _read_uuid(buffer: memoryview, position: int, _: Budget) -> tuple[UUID | None, int]:
    check_left(buffer, position, size=16)
    content = bytes(buffer[position : position + 16])
    return (None if content == ZERO_UUID else UUID(bytes=content)), position + 16


def _converter(field: Field, *, is_nullable: bool) -> Callable[[Any], Any] | None:
    match field.kind:
        case "error_code":
            known = {int(code): code for code in field.value_type}
            return lambda value: known.get(value, value)
        case "timedelta_i32" | "timedelta_i64":
            return _duration
        case "datetime_i64":
            return _nullable_instant if is_nullable else _instant
        case _:
            return None


def _duration(milliseconds: int) -> timedelta:
    try:
        return timedelta(milliseconds=milliseconds)
    except OverflowError:
        return timedelta.max if milliseconds > 0 else timedelta.min


def _nullable_instant(milliseconds: int) -> datetime | None:
    return None if milliseconds == -1 else _instant(milliseconds)


def _instant(milliseconds: int) -> datetime:
    try:
        return _EPOCH + timedelta(milliseconds=milliseconds)
    except OverflowError:
        raise MalformedFrame(f"{milliseconds} ms is not a point in time") from None
