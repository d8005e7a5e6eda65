"""The default of a field, which its schema has as JSON, in Avro's own encoding: read and written like any value of a message."""

import struct
from typing import Any

from millstream.spark.formats.avro_type import NO_DEFAULT, AvroType, BadSchema
from millstream.wire.primitives import zigzag_varint


def encode_default(avro: AvroType, default: Any) -> bytes:
    """The bytes of a default; `BadSchema` if it is not of its type."""
    try:
        return _encode(avro, default)
    except (AttributeError, KeyError, TypeError, ValueError, OverflowError, struct.error, RecursionError):
        raise BadSchema(f"the default {default!r} is not of the type {avro}") from None


def _encode(avro: AvroType, value: Any) -> bytes:
    match avro.kind:
        case "null":
            return b""
        case "boolean":
            return bytes([_boolean(value)])
        case "int" | "long":
            return zigzag_varint(_whole(value, 32 if avro.kind == "int" else 64))
        case "float" | "double":
            return struct.pack("<f" if avro.kind == "float" else "<d", _number(value))
        case "bytes":
            return _sized(value.encode("latin-1"))  # in JSON each character stands for a byte
        case "fixed":
            return _of_size(avro.size, value.encode("latin-1"))
        case "string":
            return _sized(value.encode())
        case "enum":
            return zigzag_varint(avro.symbols.index(value))
        case "array":
            return _blocks([_encode(avro.inner, item) for item in value])
        case "map":
            return _blocks([_sized(key.encode()) + _encode(avro.inner, item) for key, item in value.items()])
        case "record":
            return b"".join(_encode(each.type, value.get(each.name, each.default)) for each in avro.fields)
        case _:
            return _encode_branch(avro, value)


def _encode_branch(union: AvroType, value: Any) -> bytes:
    """The first branch that the value fits; by the book it is the first one of all."""
    for number, branch in enumerate(union.branches):
        if value is NO_DEFAULT or (value is None) != (branch.kind == "null"):
            continue
        try:
            return zigzag_varint(number) + _encode(branch, value)
        except (AttributeError, KeyError, TypeError, ValueError, OverflowError, struct.error):
            continue
    raise ValueError(value)


# Nothing is made to fit: of a union's branches that would choose the wrong one.


def _boolean(value: Any) -> bool:
    if not isinstance(value, bool):
        raise TypeError(value)
    return value


def _number(value: Any) -> int | float:
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise TypeError(value)
    return value


def _whole(value: Any, bits: int) -> int:
    number = int(_number(value))
    if number != value or not -(1 << bits - 1) <= number < 1 << bits - 1:
        raise ValueError(value)
    return number


def _sized(content: bytes) -> bytes:
    return zigzag_varint(len(content)) + content


def _of_size(size: int, content: bytes) -> bytes:
    if len(content) != size:
        raise ValueError(content)
    return content


def _blocks(items: list[bytes]) -> bytes:
    return (zigzag_varint(len(items)) + b"".join(items) if items else b"") + b"\x00"
