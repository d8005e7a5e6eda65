"""Plain values to bytes, for every message that has no codec of its own.

A writer is made once per schema, like a reader: its source is written out and compiled. It takes a mapping with Kafka's field names: ints
for numbers, error codes, durations and points in time (milliseconds), `uuid.UUID` or 16 bytes or None for ids, sequences for arrays,
mappings for structures. Messages are taken too, so that what was read can be written. Fields that the version does not have are left
out without a word, because a handler writes one reply for all versions. A field that is missing takes the schema's default; one without
default is our mistake: a `ValueError` that names it.

Tagged fields that have their default are not written, as Kafka does it.

The source of a structure with one number reads:

    def write(values, parts):
        get = values.get if type(values) is dict or isinstance(values, Mapping) else partial(getattr, values)
        name = ""
        try:
            name = "member_epoch"
            value = get("member_epoch", REQUIRED)
            if value is REQUIRED:
                raise ValueError("is required and was not given")
            parts.append(pack_1(value))
        except (ValueError, TypeError, AttributeError, struct_error) as error:
            raise mistake(name, error) from error
"""

import struct
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import cache, partial
from typing import Any
from uuid import UUID

from millstream.wire.primitives import INT16, INT32, ZERO_UUID, tagged_fields, unsigned_varint
from millstream.wire.schema import NUMBER_FORMATS, REQUIRED, BoundField, Schema

Writer = Callable[[Any], bytes]
PartsWriter = Callable[[Any, list[bytes]], None]
Lines = Iterator[str]


@cache
def message_writer(schema: Schema) -> Writer:
    """A writer of the whole message or structure."""
    write = _parts_writer(schema)

    def write_whole(values: Any) -> bytes:
        parts: list[bytes] = []
        write(values, parts)
        return b"".join(parts)

    return write_whole


@cache
def _parts_writer(schema: Schema) -> PartsWriter:
    source = _WriterSource(schema)
    return source.compiled([*source.untagged(), *source.tagged()])


def _field_writer(schema: Schema, field: BoundField) -> Writer:
    """A writer of the value of one field alone."""
    source = _WriterSource(schema)
    write = source.compiled(["value = values", *source.value(field)])

    def write_field(value: Any) -> bytes:
        parts: list[bytes] = []
        write(value, parts)
        return b"".join(parts)

    return write_field


class _WriterSource:
    """Writes the source of one writer, and knows what its names stand for."""

    def __init__(self, schema: Schema) -> None:
        self._schema = schema
        self._names: dict[str, Any] = {
            "REQUIRED": REQUIRED,
            "Mapping": Mapping,
            "partial": partial,
            "pack": struct.pack,
            "struct_error": struct.error,
            "int16": INT16.pack,
            "int32": INT32.pack,
            "unsigned_varint": unsigned_varint,
            "write_tagged": _write_tagged,
            "mistake": lambda name, error: ValueError(f"{schema.name}: {name}: {error}"),
        }

    def name(self, prefix: str, value: Any) -> str:
        """A name for a value that the source uses."""
        name = f"{prefix}_{len(self._names)}"
        self._names[name] = value
        return name

    def compiled(self, body: Iterable[str]) -> PartsWriter:
        """The writer whose statements are `body`."""
        lines = [
            "def write(values, parts):",
            " get = values.get if type(values) is dict or isinstance(values, Mapping) else partial(getattr, values)",
            " name = ''",
            " try:",
            *(f"  {line}" for line in (*body, "pass")),
            " except (ValueError, TypeError, AttributeError, struct_error) as error:",
            "  raise mistake(name, error) from error",
        ]
        exec("\n".join(lines), self._names)  # noqa: S102  # made of our own layouts alone: nothing from outside is in it
        writer: PartsWriter = self._names["write"]
        return writer

    def untagged(self) -> Lines:
        """Write the fields that every message has, in their order."""
        for field in self._schema.fields:
            if field.tag is not None:
                continue
            yield f"name = {field.name!r}"
            yield f"value = get({field.name!r}, REQUIRED)"
            yield "if value is REQUIRED:"
            if field.default is REQUIRED:
                yield " raise ValueError('is required and was not given')"
            else:
                yield f" value = {self.name('default', field.default)}"
            yield from self.value(field)

    def tagged(self) -> Lines:
        """Write the tagged fields, if the version has such."""
        if not self._schema.is_flexible:
            return
        fields = sorted((field for field in self._schema.fields if field.tag is not None), key=lambda field: field.tag or 0)
        if not fields:
            yield "parts.append(b'\\x00')"
            return
        plans = []
        for field in fields:
            write = _field_writer(self._schema, field)
            default = b"" if field.default is None else None if field.default is REQUIRED else write(field.default)
            plans.append((field.tag, field.name, write, default))
        yield f"parts.append(write_tagged({self.name('tagged', plans)}, get))"

    def value(self, field: BoundField) -> Lines:
        """Write what is in the variable `value`."""
        if field.is_array:
            yield from self._array(field)
        elif field.nested is not None:
            yield from self._structure(field)
        else:
            yield from self._single(field, "value", is_nullable=field.is_nullable)

    def _array(self, field: BoundField) -> Lines:
        yield "if value is None:"
        yield f" {self._null(is_nullable=field.is_nullable, legacy=INT32)}"
        yield "else:"
        yield " size = len(value)"
        yield f" parts.append({self._length('size', legacy='int32')})"
        if field.kind in NUMBER_FORMATS:
            yield f" parts.append(pack(f'>{{size}}{NUMBER_FORMATS[field.kind][1:]}', *value))"
            return
        yield " for element in value:"
        if field.nested is not None:
            yield f"  {self.name('write', _parts_writer(field.nested))}(element, parts)"
        else:
            for line in self._single(field, "element", is_nullable=False):
                yield f"  {line}"

    def _structure(self, field: BoundField) -> Lines:
        assert field.nested is not None
        write = self.name("write", _parts_writer(field.nested))
        if field.is_nullable and field.tag is None:
            # A structure that may be null is preceded by a byte that says so (KIP-893); a tagged one is null by not being there.
            yield "parts.append(b'\\xff' if value is None else b'\\x01')"
            yield "if value is not None:"
            yield f" {write}(value, parts)"
        else:
            yield f"{write}(value, parts)"

    def _single(self, field: BoundField, variable: str, *, is_nullable: bool) -> Lines:
        if field.kind in ("string", "bytes", "records"):
            legacy = INT16 if field.kind == "string" else INT32
            yield f"if {variable} is None:"
            yield f" {self._null(is_nullable=is_nullable, legacy=legacy)}"
            yield "else:"
            yield f" content = {variable}.encode() if isinstance({variable}, str) else bytes({variable})"
            yield f" parts.append({self._length('len(content)', legacy='int16' if legacy is INT16 else 'int32')})"
            yield " parts.append(content)"
        else:
            yield f"parts.append({self.name('write', _value_writer(field))}({variable}))"

    def _length(self, size: str, *, legacy: str) -> str:
        return f"unsigned_varint({size} + 1)" if self._schema.is_flexible else f"{legacy}({size})"

    def _null(self, *, is_nullable: bool, legacy: struct.Struct) -> str:
        if not is_nullable:
            return "raise ValueError('must not be null')"
        null = b"\x00" if self._schema.is_flexible else legacy.pack(-1)
        return f"parts.append({null!r})"


def _write_tagged(plans: list[tuple[int, str, Writer, bytes | None]], get: Callable[..., Any]) -> bytes:
    fields = []
    for tag, name, write_field, default in plans:
        value = get(name, None)
        if value is not None:
            content = write_field(value)
            if content != default:
                fields.append((tag, content))
    return tagged_fields(fields)


def _value_writer(field: BoundField) -> Writer:
    """Writes a value of fixed size."""
    return _write_uuid if field.kind == "uuid" else struct.Struct(NUMBER_FORMATS[field.kind]).pack


def _write_uuid(value: UUID | bytes | None) -> bytes:
    if value is None:
        return ZERO_UUID
    content = value.bytes if isinstance(value, UUID) else bytes(value)
    if len(content) != len(ZERO_UUID):
        raise ValueError(f"an id has 16 bytes, not {len(content)}")
    return content
