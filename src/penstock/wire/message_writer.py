"""Plain values to bytes, for every message that has no codec of its own.

A writer is compiled once per schema into closures. It takes a mapping with Kafka's field names: ints for numbers, error codes, durations
and points in time (milliseconds), `uuid.UUID` or 16 bytes or None for ids, sequences for arrays, mappings for structures. kio's objects are
taken too, so that what was read can be written. Fields that the version does not have are left out without a word, because a handler
writes one reply for all versions. A field that is missing takes the schema's default; one without default is our mistake: a `ValueError`
that names it.

Tagged fields that have their default are not written, as Kafka does it.
"""

import struct
from collections.abc import Callable, Mapping
from datetime import UTC, datetime, timedelta
from functools import cache, partial
from typing import Any, Final
from uuid import UUID

from penstock.wire.primitives import INT16, INT32, INT64, ZERO_UUID, tagged_fields, unsigned_varint
from penstock.wire.schema import NUMBER_FORMATS, REQUIRED, Field, Schema

Writer = Callable[[Any], bytes]

_MILLISECOND: Final = timedelta(milliseconds=1)
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)


@cache
def message_writer(schema: Schema) -> Writer:
    """A writer of the whole message or structure."""
    untagged = [_field_plan(schema, field) for field in schema.fields if field.tag is None]
    tagged = sorted((field.tag, *_field_plan(schema, field)) for field in schema.fields if field.tag is not None)
    is_flexible = schema.is_flexible

    def write(values: Any) -> bytes:
        get = values.get if isinstance(values, Mapping) else partial(getattr, values)
        parts = []
        name = ""
        try:
            for name, kafka_name, write_field, default in untagged:
                value = get(kafka_name, REQUIRED)
                if value is REQUIRED and name != kafka_name:
                    value = get(name, REQUIRED)
                if value is not REQUIRED:
                    parts.append(write_field(value))
                elif default is not None:
                    parts.append(default)
                else:
                    raise ValueError("is required and was not given")
            if is_flexible:
                parts.append(_write_tagged(tagged, get) if tagged else b"\x00")
        except (ValueError, TypeError, AttributeError, struct.error) as error:
            raise ValueError(f"{schema.name}: {name}: {error}") from error
        return b"".join(parts)

    return write


def _write_tagged(plans: list[tuple[int, str, str, Writer, bytes | None]], get: Callable[..., Any]) -> bytes:
    fields = []
    for tag, name, kafka_name, write_field, default in plans:
        value = get(kafka_name, get(name, None))
        if value is not None:
            content = write_field(value)
            if content != default:
                fields.append((tag, content))
    return tagged_fields(fields)


def _field_plan(schema: Schema, field: Field) -> tuple[str, str, Writer, bytes | None]:
    write = _field_writer(schema, field)
    if field.default is REQUIRED:
        default = None
    elif field.default is None and field.tag is not None:
        default = b""
    else:
        default = write(field.default)
    return field.name, field.kafka_name, write, default


def _field_writer(schema: Schema, field: Field) -> Writer:
    if field.is_array:
        return _array_writer(schema, field)
    if field.nested is None:
        return _value_writer(schema, field, is_nullable=field.is_nullable)
    write_entity = message_writer(field.nested)
    if field.is_nullable and field.tag is None:
        # A structure that may be null is preceded by a byte that says so (KIP-893); a tagged one is null by not being there.
        return lambda value: b"\xff" if value is None else b"\x01" + write_entity(value)
    return write_entity


def _array_writer(schema: Schema, field: Field) -> Writer:
    write_element = message_writer(field.nested) if field.nested is not None else _value_writer(schema, field, is_nullable=False)
    write_length, null, is_nullable = (
        (_compact_length, b"\x00", field.is_nullable) if schema.is_flexible else (INT32.pack, b"\xff" * 4, field.is_nullable)
    )

    def write(elements: Any) -> bytes:
        if elements is None:
            if is_nullable:
                return null
            raise ValueError("must not be null")
        return write_length(len(elements)) + b"".join(map(write_element, elements))

    return write


def _value_writer(schema: Schema, field: Field, *, is_nullable: bool) -> Writer:
    match field.kind:
        case "uuid":
            return _write_uuid
        case "string":
            return _text_writer(is_flexible=schema.is_flexible, is_nullable=is_nullable, legacy_length=INT16)
        case "bytes" | "records":
            return _text_writer(is_flexible=schema.is_flexible, is_nullable=is_nullable, legacy_length=INT32)
        case "timedelta_i32":
            return lambda value: INT32.pack(_milliseconds(value))
        case "timedelta_i64":
            return lambda value: INT64.pack(_milliseconds(value))
        case "datetime_i64":
            return lambda value: INT64.pack(_timestamp(value))
        case kind:
            return struct.Struct(NUMBER_FORMATS[kind]).pack


def _text_writer(*, is_flexible: bool, is_nullable: bool, legacy_length: struct.Struct) -> Writer:
    write_length: Callable[[int], bytes] = _compact_length if is_flexible else legacy_length.pack
    null = b"\x00" if is_flexible else legacy_length.pack(-1)

    def write(value: Any) -> bytes:
        if value is None:
            if is_nullable:
                return null
            raise ValueError("must not be null")
        content: bytes = value.encode() if isinstance(value, str) else bytes(value)
        return write_length(len(content)) + content

    return write


def _compact_length(length: int) -> bytes:
    return unsigned_varint(length + 1)


def _write_uuid(value: UUID | bytes | None) -> bytes:
    if value is None:
        return ZERO_UUID
    content = value.bytes if isinstance(value, UUID) else bytes(value)
    if len(content) != len(ZERO_UUID):
        raise ValueError(f"an id has 16 bytes, not {len(content)}")
    return content


def _milliseconds(value: int | timedelta) -> int:
    return value // _MILLISECOND if isinstance(value, timedelta) else value


def _timestamp(value: int | datetime | None) -> int:
    if value is None:
        return -1
    return (value - _EPOCH) // _MILLISECOND if isinstance(value, datetime) else value
