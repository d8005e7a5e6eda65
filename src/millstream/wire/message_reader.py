"""Bytes to messages (`wire.requests`, `wire.responses`), for every message that has no codec of its own.

A reader is made once per schema: its source is written out, as `namedtuple` does it, and compiled. That is dull to look at and three times
as fast as a chain of closures, and groups and tools send nothing else. A reader believes nothing: lengths and counts are compared with the
bytes left before anything is allocated, all arrays of a message together may hold only so many elements (an element of three bytes becomes
an object of two hundred), unknown tagged fields are skipped as KIP-482 demands, and every complaint is a `MalformedFrame`.

For a structure of an id, two texts and two numbers the source reads (legacy):

    def read(buffer, position, budget):
        limit = len(buffer)
        try:
            ...                                      # `f0` to `f4`, one after the other; numbers that are neighbours by one call
        except (IndexError, struct_error):
            raise ends_inside() from None
        except UnicodeDecodeError:
            raise not_utf8() from None
        return new_tuple(plain_1, (f0, f1, f2, f3, f4)), position
"""

import struct
from collections.abc import Callable, Iterable, Iterator
from functools import cache, lru_cache
from itertools import groupby
from typing import Any
from uuid import UUID

from millstream.errors import MalformedFrame
from millstream.wire.primitives import INT16, INT32, UUID_SIZE, ZERO_UUID, read_tags, read_unsigned_varint
from millstream.wire.schema import NUMBER_FORMATS, STRUCTURE, BoundField, Schema


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
Lines = Iterator[str]


@cache
def message_reader(schema: Schema) -> Reader:
    """A reader of the whole message or structure."""
    source = _ReaderSource(schema)
    names = {field.name: f"f{number}" for number, field in enumerate(schema.fields)}
    untagged = [(field, names[field.name]) for field in schema.fields if field.tag is None]
    tagged = [(field, names[field.name]) for field in schema.fields if field.tag is not None]
    body = [*source.fields(untagged), *(source.tags(tagged) if schema.is_flexible else ())]
    values = "".join(f"{names[name] if name in names else source.name('absent', default)}, " for name, default in _all_fields(schema.plain))
    return source.compiled(body, result=f"new_tuple({source.name('plain', schema.plain)}, ({values}))")


def _all_fields(plain: Any) -> Iterable[tuple[str, Any]]:
    """The fields that any version has, each with its default."""
    defaults: dict[str, Any] = plain._field_defaults
    return defaults.items()


def _field_reader(schema: Schema, field: BoundField) -> Reader:
    """A reader of one field alone: tagged ones stand by themselves."""
    source = _ReaderSource(schema)
    return source.compiled(source.field(field, "f0"), result="f0")


class _ReaderSource:
    """Writes the source of one reader, and knows what its names stand for."""

    def __init__(self, schema: Schema) -> None:
        self._schema = schema
        self._names: dict[str, Any] = {
            "new_tuple": tuple.__new__,
            "struct_error": struct.error,
            "unpack_from": struct.unpack_from,
            "int16": INT16.unpack_from,
            "int32": INT32.unpack_from,
            "read_unsigned_varint": read_unsigned_varint,
            "read_tags": read_tags,
            "read_uuid": _read_uuid,
            "ends_inside": lambda: MalformedFrame(f"{schema.name} ends inside a field"),
            "not_utf8": lambda: MalformedFrame(f"{schema.name}: a string is not valid UTF-8"),
            "cannot_be": lambda name, size: MalformedFrame(f"{schema.name}: the field {name} cannot have the length {size}"),
            "does_not_fit": lambda name, size, left: MalformedFrame(
                f"{schema.name}: {size} bytes or elements of {name} do not fit into the {left} bytes left"
            ),
        }

    def name(self, prefix: str, value: Any) -> str:
        """A name for a value that the source uses."""
        name = f"{prefix}_{len(self._names)}"
        self._names[name] = value
        return name

    def compiled(self, body: Iterable[str], *, result: str) -> Reader:
        """The reader whose statements are `body`."""
        lines = [
            "def read(buffer, position, budget):",
            " limit = len(buffer)",
            " try:",
            *(f"  {line}" for line in (*body, "pass")),
            " except (IndexError, struct_error):",
            "  raise ends_inside() from None",
            " except UnicodeDecodeError:",
            "  raise not_utf8() from None",
            f" return {result}, position",
        ]
        exec("\n".join(lines), self._names)  # noqa: S102  # made of our own layouts alone: nothing from outside is in it
        reader: Reader = self._names["read"]
        return reader

    def fields(self, fields: list[tuple[BoundField, str]]) -> Lines:
        """Read fields one after the other, numbers that are neighbours together."""
        for is_number, group in groupby(fields, key=lambda pair: not pair[0].is_array and pair[0].kind in NUMBER_FORMATS):
            if is_number:
                yield from self._numbers(list(group))
            else:
                for field, target in group:
                    yield from self.field(field, target)

    def field(self, field: BoundField, target: str) -> Lines:
        """Read one field into the variable `target`."""
        if field.is_array:
            yield from self._array(field, target)
        elif field.nested is not None:
            yield from self._structure(field, target)
        else:
            yield from self._value(field, target, is_nullable=field.is_nullable)

    def tags(self, fields: list[tuple[BoundField, str]]) -> Lines:
        """Read the tagged fields; those that are not known here are passed over."""
        for field, target in fields:
            yield f"{target} = {self.name('default', field.default)}"
        yield "if buffer[position] == 0:"
        yield " position += 1"
        yield "else:"
        yield " tags, position = read_tags(buffer, position)"
        yield " for tag, start, end in tags:"
        for field, target in fields:
            yield f"  if tag == {field.tag}:"
            yield f"   {target}, _ = {self.name('read_tagged', _field_reader(self._schema, field))}(buffer[:end], start, budget)"
        yield "  pass"

    def _numbers(self, fields: list[tuple[BoundField, str]]) -> Lines:
        layout = struct.Struct(">" + "".join(NUMBER_FORMATS[field.kind][1:] for field, _ in fields))
        yield f"{''.join(target + ', ' for _, target in fields)}= {self.name('unpack', layout.unpack_from)}(buffer, position)"
        yield f"position += {layout.size}"

    def _value(self, field: BoundField, target: str, *, is_nullable: bool) -> Lines:
        assert field.kind != STRUCTURE
        if field.kind == "uuid":
            yield f"{target} = read_uuid(buffer, position)"
            yield f"position += {UUID_SIZE}"
        elif field.kind in NUMBER_FORMATS:
            yield from self._numbers([(field, target)])
        else:
            yield from self._length(is_short=field.kind == "string")
            yield from self._unless_null(field, target, is_nullable=is_nullable)
            yield " end = position + size"
            yield " if end > limit:"
            yield f"  raise does_not_fit({field.name!r}, size, limit - position)"
            yield f" {target} = " + ("str(buffer[position:end], 'utf-8')" if field.kind == "string" else "bytes(buffer[position:end])")
            yield " position = end"

    def _array(self, field: BoundField, target: str) -> Lines:
        yield from self._length(is_short=False)
        yield from self._unless_null(field, target, is_nullable=field.is_nullable)
        yield f" if size * {self._schema.smallest_element(field)} > limit - position:"
        yield f"  raise does_not_fit({field.name!r}, size, limit - position)"
        yield " budget.spend(size)"
        if field.kind in NUMBER_FORMATS:
            number = struct.Struct(NUMBER_FORMATS[field.kind])
            yield f" {target} = unpack_from(f'>{{size}}{number.format[1:]}', buffer, position)"
            yield f" position += size * {number.size}"
            return
        elements = f"{target}_elements"
        yield f" {elements} = []"
        yield " for _ in range(size):"
        if field.nested is not None:
            yield f"  element, position = {self.name('read_element', message_reader(field.nested))}(buffer, position, budget)"
        else:
            for line in self._value(field, "element", is_nullable=False):
                yield f"  {line}"
        yield f"  {elements}.append(element)"
        yield f" {target} = tuple({elements})"

    def _structure(self, field: BoundField, target: str) -> Lines:
        assert field.nested is not None
        read = self.name("read_structure", message_reader(field.nested))
        if field.is_nullable and field.tag is None:
            # A structure that may be null is preceded by a byte that says so (KIP-893); a tagged one is null by not being there.
            yield "if buffer[position] >= 0x80:"
            yield f" {target} = None"
            yield " position += 1"
            yield "else:"
            yield f" {target}, position = {read}(buffer, position + 1, budget)"
        else:
            yield f"{target}, position = {read}(buffer, position, budget)"

    def _length(self, *, is_short: bool) -> Lines:
        if self._schema.is_flexible:
            yield "size = buffer[position] - 1"
            yield "if size < 127:"
            yield " position += 1"
            yield "else:"
            yield " size, position = read_unsigned_varint(buffer, position)"
            yield " size -= 1"
        elif is_short:
            yield "(size,) = int16(buffer, position)"
            yield "position += 2"
        else:
            yield "(size,) = int32(buffer, position)"
            yield "position += 4"

    def _unless_null(self, field: BoundField, target: str, *, is_nullable: bool) -> Lines:
        """Open the branch for a length that is one."""
        yield "if size < 0:"
        if is_nullable:
            yield " if size < -1:"
            yield f"  raise cannot_be({field.name!r}, size)"
            yield f" {target} = None"
        else:
            yield f" raise cannot_be({field.name!r}, size)"
        yield "else:"


def _read_uuid(buffer: memoryview, position: int) -> UUID | None:
    content = bytes(buffer[position : position + UUID_SIZE])
    if len(content) != UUID_SIZE:
        raise IndexError
    return None if content == ZERO_UUID else _uuid(content)


@lru_cache(maxsize=4096)
def _uuid(content: bytes) -> UUID:
    """Topics are few and their ids come again and again."""
    return UUID(bytes=content)
