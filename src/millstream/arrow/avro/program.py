"""A writer's schema and the reader's to a program that reads messages of the one into columns of the other.

The rules are those of `millstream.avro.resolution`. What the writer has and the reader does not is skipped; what the reader has and the
writer does not gets its default. An enum's symbol that the reader has no symbol for breaks the message. A union is decided branch by
branch, when a message is read: only messages that have an impossible branch are broken.

A record's own name is not compared, as in Java: only its fields count. Timestamps of different units are converted.
"""

from collections.abc import Callable
from typing import Final, TypeGuard

import numpy as np

from millstream.arrow.avro.column_types import BadSchema, column_branches, column_decimal, column_kind
from millstream.arrow.avro.layout import BYTES, LIST, STRUCT, Layout, Node
from millstream.arrow.kernels import avro_kernel as kernel
from millstream.arrow.kernels.avro_kernel import OPERATION_SIZE
from millstream.arrow.kernels.compiled import Bytes, Ints
from millstream.avro.defaults import encode_default
from millstream.avro.resolution import field_sources, is_promoted, names_match, symbol_as_read
from millstream.avro.schema import NO_DEFAULT, Array, Enum, Field, Fixed, Map, Record, Schema, Union, described, short_name

_UNITS: Final = {"millis": kernel.AS_MILLIS, "micros": kernel.AS_LONG, "nanos": kernel.AS_NANOS}
_MOST_OPERATIONS: Final = 500_000
"""Of one writer's schema: unions of records that hold unions again would be more than there is memory for."""
_SIZES: Final = {"boolean": 1, "float": 4, "double": 8}


class Compiler:
    """Puts the programs of one query together: they share tables, constants and the layout of the reader's schema."""

    def __init__(self, reader: Schema) -> None:
        self._reader = reader
        self._whole: Schema | None = None
        """The type of whole messages: if they are bytes, all of Confluent's clients write them without their length."""
        self.layout = Layout(reader)
        self._operations: list[int] = []
        self._tables: list[int] = []
        self._constants = bytearray()
        self._limit = OPERATION_SIZE * _MOST_OPERATIONS
        # By the objects themselves, which it keeps alive: the address of a schema that is gone may be that of the next one.
        self._skipped: dict[Record, int] = {}
        self._takes_bytes: dict[Record, bool] = {}
        self.null_entry = self._position()
        self._null(self.layout.root)
        self._emit(kernel.END)

    def add(self, writer: Schema) -> int:
        """Add the program for messages of this schema; where it begins. `BadSchema` says why there can be none."""
        if _is_another_thing(writer, self._reader):
            raise BadSchema(f"it is of the record {writer.fullname}, which has another name and none of the fields")
        before = len(self._operations), len(self._tables), len(self._constants), dict(self._skipped)
        try:
            entry = self._position()
            self._limit = entry + OPERATION_SIZE * _MOST_OPERATIONS
            self._whole = writer
            self._read(writer, self._reader, self.layout.root)
            self._emit(kernel.END)
        except (BadSchema, RecursionError) as error:
            del self._operations[before[0] :], self._tables[before[1] :], self._constants[before[2] :]
            self._skipped = before[3]
            if isinstance(error, RecursionError):
                raise BadSchema("it is nested too deeply") from None
            raise
        return entry

    def program(self) -> tuple[Ints, Ints, Bytes]:
        """Everything that was added: operations, tables, constants."""
        constants = np.frombuffer(bytes(self._constants), np.uint8).copy()
        return np.array(self._operations, np.int64), np.array(self._tables, np.int64), constants

    # -- reading

    def _read(self, writer: Schema, reader: Schema, node: Node) -> None:
        if isinstance(writer, Union):
            self._branch(writer, lambda branch: self._read(branch, reader, node))
        elif isinstance(reader, Union):
            self._read_into_union(writer, reader, node)
        elif isinstance(writer, Record) and isinstance(reader, Record):
            self._read_record(writer, reader, node)
        elif isinstance(writer, Array) and isinstance(reader, Array):
            child = node.children[0]
            self._loop(node.number, child.number, lambda: self._read(writer.items, reader.items, child))
        elif isinstance(writer, Map) and isinstance(reader, Map):
            child = node.children[0]
            self._loop(node.number, child.number, lambda: self._read_entry(writer.values, reader.values, child))
        elif writer.kind == reader.kind == "null":
            self._null(node)
        elif not _matches(writer, reader):
            raise BadSchema(f"{described(writer)} cannot be read as {described(reader)}")
        else:
            self._read_simple(writer, reader, node)

    def _read_into_union(self, writer: Schema, reader: Union, node: Node) -> None:
        branch = next((each for each in reader.branches if _is_same(writer, each)), None)
        branch = branch or next((each for each in reader.branches if _matches(writer, each)), None)
        if branch is None:
            raise BadSchema(f"{described(writer)} is none of {described(reader)}")
        if branch.kind == "null":
            self._null(node)
            return
        columns = column_branches(reader)
        if len(columns) == 1:
            self._read(writer, columns[0], node)
            return
        self._emit(kernel.VALID, node.number)
        for column, child in zip(columns, node.children, strict=True):
            if column is branch:
                self._read(writer, column, child)
            else:
                self._null(child)

    def _read_record(self, writer: Record, reader: Record, node: Node) -> None:
        places = _places(writer, reader)
        self._emit(kernel.VALID, node.number)
        for each in writer.fields:
            if each.name not in places:
                self._skip(each.schema)
                continue
            place = places[each.name]
            try:
                self._read(each.schema, reader.fields[place].schema, node.children[place])
            except BadSchema as error:
                raise BadSchema(f"{short_name(reader.fullname)}.{reader.fields[place].name}: {error}") from None
        found = set(places.values())
        for number, each in enumerate(reader.fields):
            if number not in found:
                self._default(reader, each, node.children[number])

    def _default(self, reader: Record, field: Field, node: Node) -> None:
        if field.default is NO_DEFAULT:
            raise BadSchema(f"{short_name(reader.fullname)}.{field.name} is not written, and has no default to be read as")
        try:
            encoded = encode_default(field.schema, field.default)
        except ValueError as error:
            raise BadSchema(str(error)) from None
        start = len(self._constants)
        self._constants += encoded
        self._emit(kernel.DEFAULT, start, start + len(encoded))
        self._read(field.schema, field.schema, node)
        self._emit(kernel.END_DEFAULT)

    def _read_entry(self, writer: Schema, reader: Schema, node: Node) -> None:
        key, value = node.children
        self._emit(kernel.VALID, node.number)
        self._emit(kernel.BYTES, key.number, kernel.TEXT)
        self._read(writer, reader, value)

    def _read_simple(self, writer: Schema, reader: Schema, node: Node) -> None:
        is_whole = writer is self._whole and writer.kind == "bytes"
        decimal = column_decimal(reader)
        if isinstance(writer, Enum) and isinstance(reader, Enum):
            self._emit(kernel.ENUM, node.number, self._symbols(writer, reader), len(writer.symbols))
        elif decimal is not None:
            limits = len(self._constants)
            for limit in (10**decimal.precision, -(10**decimal.precision)):
                self._constants += limit.to_bytes(16, signed=True)
            size = writer.size if isinstance(writer, Fixed) else kernel.REST if is_whole else kernel.SIZED
            self._emit(kernel.DECIMAL, node.number, size, limits)
        elif isinstance(writer, Fixed):
            self._emit(kernel.FIXED, node.number, writer.size)
        elif is_whole:
            self._emit(kernel.FIXED, node.number, kernel.REST_AS_TEXT if reader.kind == "string" else kernel.REST)
        else:
            self._read_primitive(writer, reader, node)

    def _read_primitive(self, writer: Schema, reader: Schema, node: Node) -> None:
        match writer.kind:
            case "int" | "long":
                self._emit(kernel.LONG, node.number, _how(writer, reader))
            case "float":
                self._emit(kernel.FLOAT, node.number, kernel.AS_FLOAT if reader.kind == "float" else kernel.AS_DOUBLE)
            case "double":
                self._emit(kernel.DOUBLE, node.number)
            case "boolean":
                self._emit(kernel.BOOLEAN, node.number)
            case _:
                self._emit(kernel.BYTES, node.number, kernel.TEXT if reader.kind == "string" else 0)

    def _symbols(self, writer: Enum, reader: Enum) -> int:
        """The table of an enum: for each of the writer's symbols where the text of the reader's lies, or -1."""
        table: list[int] = []
        for symbol in writer.symbols:
            known = symbol_as_read(symbol, reader)
            if known is None:
                table += (-1, 0)
                continue
            table += (len(self._constants), len(known.encode()))
            self._constants += known.encode()
        return self._table(table)

    # -- skipping, and nulls

    def _skip(self, writer: Schema) -> None:
        if isinstance(writer, Union):
            self._branch(writer, self._skip)
        elif isinstance(writer, Record):
            # One without bytes may hold others of its kind, each twice, and take for ever.
            if self._has_bytes(writer):
                self._skip_record(writer)
        elif isinstance(writer, Array):
            self._loop(-1, -1, lambda: self._skip(writer.items))
        elif isinstance(writer, Map):
            self._loop(-1, -1, lambda: self._skip_entry(writer.values))
        elif isinstance(writer, Fixed) or writer.kind in _SIZES:
            self._emit(kernel.SKIP, 0, writer.size if isinstance(writer, Fixed) else _SIZES[writer.kind])
        elif writer.kind in {"bytes", "string"}:
            self._emit(kernel.SKIP_BYTES)
        elif writer.kind != "null":
            self._emit(kernel.SKIP_LONG)

    def _skip_entry(self, values: Schema) -> None:
        self._emit(kernel.SKIP_BYTES)
        self._skip(values)

    def _skip_record(self, writer: Record) -> None:
        """A subroutine, because a record that is only skipped may contain itself."""
        if writer not in self._skipped:
            around = self._emit(kernel.JUMP)
            self._skipped[writer] = self._position()
            for field in writer.fields:
                self._skip(field.schema)
            self._emit(kernel.RETURN)
            self._operations[around + 1] = self._position()
        self._emit(kernel.CALL, self._skipped[writer])

    def _has_bytes(self, writer: Schema) -> bool:
        """Whether a value of the type takes a byte at least."""
        if not isinstance(writer, Record):
            return writer.size > 0 if isinstance(writer, Fixed) else writer.kind != "null"
        if writer not in self._takes_bytes:
            self._takes_bytes[writer] = True  # what contains itself, and nothing else, has no value at all
            self._takes_bytes[writer] = any(self._has_bytes(field.schema) for field in writer.fields)
        return self._takes_bytes[writer]

    def _null(self, node: Node) -> None:
        """A null in this node; a struct's children have an entry for it too."""
        if node.kind == LIST:
            self._emit(kernel.NULL_LIST, node.number, node.children[0].number)
            return
        self._emit(kernel.NULL_BYTES if node.kind == BYTES else kernel.NULL, node.number)
        if node.kind == STRUCT:
            for child in node.children:
                self._null(child)

    # -- putting operations together

    def _branch(self, union: Union, emit: Callable[[Schema], None]) -> None:
        table = self._table([0] * len(union.branches))
        self._emit(kernel.UNION, table, len(union.branches))
        jumps, problems = [], []
        for number, branch in enumerate(union.branches):
            self._tables[table + number] = self._position()
            try:
                emit(branch)
            except BadSchema as error:
                # What this branch has emitted so far is never reached.
                problems.append(str(error))
                self._tables[table + number] = self._emit(kernel.FAIL)
            jumps.append(self._emit(kernel.JUMP))
        if len(problems) == len(union.branches):
            raise BadSchema("; ".join(problems))
        for jump in jumps:
            self._operations[jump + 1] = self._position()

    def _loop(self, node: int, child: int, emit_item: Callable[[], None]) -> None:
        self._emit(kernel.LIST)
        following = self._emit(kernel.NEXT, node, child)
        emit_item()
        self._emit(kernel.JUMP, following)
        self._operations[following + 3] = self._position()

    def _emit(self, operation: int, a: int = 0, b: int = 0, c: int = 0) -> int:
        if self._position() > self._limit:
            raise BadSchema("it has unions in unions, too many to be read")
        self._operations += (operation, a, b, c)
        return self._position() - OPERATION_SIZE

    def _table(self, numbers: list[int]) -> int:
        self._tables += numbers
        return len(self._tables) - len(numbers)

    def _position(self) -> int:
        return len(self._operations)


def _is_another_thing(writer: Schema, reader: Schema) -> TypeGuard[Record]:
    """Whether messages are records that have nothing to do with the reader's: read by its defaults they would be rows of nothing. A name
    alone says little, because records are renamed."""
    if not (isinstance(writer, Record) and isinstance(reader, Record)) or writer.fullname == reader.fullname:
        return False
    return bool(writer.fields) and bool(reader.fields) and not _places(writer, reader)


def _places(writer: Record, reader: Record) -> dict[str, int]:
    """By the name of a writer's field the reader's that it is read into. A message is read once: of several fields that it would fill, the
    one of its name has it, otherwise the first."""
    sources = field_sources(writer, reader)
    places: dict[str, int] = {}
    for number, source in enumerate(sources):
        if source is not None and (source.name not in places or source.name == reader.fields[number].name):
            places[source.name] = number
    return places


def _matches(writer: Schema, reader: Schema) -> bool:
    """Whether values of one type can be read as the other, as far as that can be seen without looking inside."""
    if isinstance(writer, Union) or isinstance(reader, Union):
        return True
    decimals = column_decimal(writer), column_decimal(reader)
    if writer.kind != reader.kind:
        return is_promoted(writer, reader) and decimals == (None, None)
    if isinstance(writer, Enum) and isinstance(reader, Enum):
        return names_match(writer, reader)
    if isinstance(writer, Fixed) and isinstance(reader, Fixed) and not (names_match(writer, reader) and writer.size == reader.size):
        return False
    return decimals[0] is None or decimals[1] is None or decimals[0].scale == decimals[1].scale


def _is_same(writer: Schema, reader: Schema) -> bool:
    """Whether a branch of a union is the very type, so that it goes before one that it could be promoted to."""
    if isinstance(writer, Record) and isinstance(reader, Record):
        return names_match(writer, reader)
    return writer.kind == reader.kind and _matches(writer, reader)


def _how(writer: Schema, reader: Schema) -> int:
    """How a whole number is written: timestamps as microseconds, whatever unit they come in."""
    if reader.kind in {"float", "double"}:
        return kernel.AS_FLOAT if reader.kind == "float" else kernel.AS_DOUBLE
    if reader.kind == "int":
        return kernel.AS_INT
    written, wanted = column_kind(writer), column_kind(reader)
    if "timestamp" in wanted:
        return _UNITS[(written if "timestamp" in written else wanted).rpartition("-")[2]]
    return kernel.AS_LONG
