"""Whether a JSON value can be the default of a field of some type, and the bytes that a writer would have written for it.

The specification's table: bytes and fixed are texts whose code points up to 255 are the bytes, a union takes what any of its branches takes
(before Avro 1.12: its first), an enum one of its symbols. A record's default may leave out fields that have defaults of their own.
"""

import json
import struct
from typing import Final

from millstream.avro.schema import NO_DEFAULT, Array, Enum, Fixed, Json, Map, Record, Schema, Union, described, type_name
from millstream.wire.primitives import zigzag_varint

INTEGERS: Final = {"int": 31, "long": 63}


def why_not_a_default(schema: Schema, value: Json) -> str | None:
    """None if the value fits, otherwise a sentence."""
    return None if fits(schema, value) else f"{_shown(value)} is no {type_name(schema)}"


def fits(schema: Schema, value: Json) -> bool:
    """Whether the value can be a default of this type."""
    if isinstance(schema, Union):
        return any(fits(branch, value) for branch in schema.branches)
    if isinstance(schema, Array):
        return isinstance(value, list) and all(fits(schema.items, item) for item in value)
    if isinstance(schema, Map):
        return isinstance(value, dict) and all(fits(schema.values, item) for item in value.values())
    if isinstance(schema, Enum):
        return value in schema.symbols if isinstance(value, str) else False
    if isinstance(schema, Fixed):
        return _is_binary(value) and len(value) == schema.size
    if isinstance(schema, Record):
        return isinstance(value, dict) and all(
            fits(field.schema, value[field.name]) if field.name in value else field.default is not NO_DEFAULT for field in schema.fields
        )
    return _fits_primitive(schema.kind, value)


def encode_default(schema: Schema, value: Json) -> bytes:
    """The default in Avro's own encoding, to be read and written like any value; `ValueError` says that it is not of its type."""
    try:
        if fits(schema, value):
            return _encode(schema, value)
    except (UnicodeEncodeError, OverflowError, RecursionError):
        pass
    raise ValueError(f"the default {value!r} is not of the type {described(schema)}")


def _encode(schema: Schema, value: Json) -> bytes:
    if isinstance(schema, Union):
        number, branch = next((number, branch) for number, branch in enumerate(schema.branches) if fits(branch, value))
        return zigzag_varint(number) + _encode(branch, value)
    if isinstance(schema, Array):
        return _blocks([_encode(schema.items, item) for item in value])
    if isinstance(schema, Map):
        return _blocks([_sized(key.encode()) + _encode(schema.values, item) for key, item in value.items()])
    if isinstance(schema, Enum):
        return zigzag_varint(schema.symbols.index(value))
    if isinstance(schema, Fixed):
        return bytes(value.encode("latin-1"))
    if isinstance(schema, Record):
        return b"".join(
            _encode(field.schema, value[field.name]) if field.name in value else encode_default(field.schema, field.default)
            for field in schema.fields
        )
    return _encode_primitive(schema.kind, value)


def _encode_primitive(kind: str, value: Json) -> bytes:
    match kind:
        case "null":
            return b""
        case "boolean":
            return bytes([value])
        case "int" | "long":
            return zigzag_varint(value)
        case "float" | "double":
            return struct.pack("<f" if kind == "float" else "<d", value)
        case "bytes":
            return _sized(value.encode("latin-1"))
        case _:
            return _sized(value.encode())


def _sized(content: bytes) -> bytes:
    return zigzag_varint(len(content)) + content


def _blocks(items: list[bytes]) -> bytes:
    return (zigzag_varint(len(items)) + b"".join(items) if items else b"") + b"\x00"


def _fits_primitive(kind: str, value: Json) -> bool:
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    if kind in INTEGERS:
        return isinstance(value, int) and is_number and -(2 ** INTEGERS[kind]) <= value < 2 ** INTEGERS[kind]
    if kind in ("float", "double"):
        return is_number
    if kind == "null":
        return value is None
    if kind == "boolean":
        return isinstance(value, bool)
    if kind == "bytes":
        return _is_binary(value)
    return isinstance(value, str)


def _is_binary(value: Json) -> bool:
    return isinstance(value, str) and all(ord(character) < 256 for character in value)


def _shown(value: Json) -> str:
    text = json.dumps(value, ensure_ascii=False)
    return text if len(text) <= 80 else text[:77] + "..."
