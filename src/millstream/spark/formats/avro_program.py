"""A writer's schema and the reader's to a program that reads messages of the one into columns of the other.

These are Avro's rules of schema resolution. Fields are found by name, or by an alias of the reader's; what the writer has and the reader
does not is skipped; what the reader has and the writer does not gets its default; numbers are promoted (int to long, float, double; long to
float, double; float to double), strings and bytes exchanged. An enum's symbol that the reader does not know becomes the reader's default
symbol, or breaks the message. A union is decided branch by branch, when a message is read: only messages that have an impossible branch are
broken.

A record's own name is not compared, as in Java: only its fields count. Timestamps of different units are converted.
"""

from collections.abc import Callable
from typing import Final

import numpy as np
import numpy.typing as npt

from millstream.spark.formats.avro_default import encode_default
from millstream.spark.formats.avro_layout import BYTES, LIST, STRUCT, Layout, Node
from millstream.spark.formats.avro_spark_types import column_branches, is_decimal
from millstream.spark.formats.avro_type import NO_DEFAULT, AvroField, AvroType, BadSchema
from millstream.spark.kernels import avro_kernel as kernel
from millstream.spark.kernels.avro_kernel import OPERATION_SIZE

Bytes = npt.NDArray[np.uint8]
Ints = npt.NDArray[np.int64]

_PROMOTIONS: Final = {
    "int": ("long", "float", "double"),
    "long": ("float", "double"),
    "float": ("double",),
    "string": ("bytes",),
    "bytes": ("string",),
}
_UNITS: Final = {"millis": kernel.AS_MILLIS, "micros": kernel.AS_LONG, "nanos": kernel.AS_NANOS}


class Compiler:
    """Puts the programs of one query together: they share tables, constants and the layout of the reader's schema."""

    def __init__(self, reader: AvroType) -> None:
        self._reader = reader
        self._whole: AvroType | None = None
        """The type of whole messages: if they are bytes, all of Confluent's clients write them without their length."""
        self.layout = Layout(reader)
        self._operations: list[int] = []
        self._tables: list[int] = []
        self._constants = bytearray()
        # By the objects themselves, which it keeps alive: the address of a schema that is gone may be that of the next one.
        self._skipped: dict[AvroType, int] = {}
        self._takes_bytes: dict[AvroType, bool] = {}
        self.null_entry = self._position()
        self._null(self.layout.root)
        self._emit(kernel.END)

    def add(self, writer: AvroType) -> int:
        """Add the program for messages of this schema; where it begins. `BadSchema` says why there can be none."""
        before = len(self._operations), len(self._tables), len(self._constants), dict(self._skipped)
        try:
            entry = self._position()
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

    def _read(self, writer: AvroType, reader: AvroType, node: Node) -> None:
        if writer.kind == "union":
            self._branch(writer, lambda branch: self._read(branch, reader, node))
        elif reader.kind == "union":
            self._read_into_union(writer, reader, node)
        elif writer.kind == reader.kind == "record":
            self._read_record(writer, reader, node)
        elif writer.kind == reader.kind and writer.kind in {"array", "map"}:
            self._read_list(writer, reader, node)
        elif writer.kind == reader.kind == "null":
            self._null(node)
        elif not _matches(writer, reader):
            raise BadSchema(f"{writer} cannot be read as {reader}")
        else:
            self._read_simple(writer, reader, node)

    def _read_into_union(self, writer: AvroType, reader: AvroType, node: Node) -> None:
        branch = next((each for each in reader.branches if _is_same(writer, each)), None)
        branch = branch or next((each for each in reader.branches if _matches(writer, each)), None)
        if branch is None:
            raise BadSchema(f"{writer} is none of {reader}")
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

    def _read_record(self, writer: AvroType, reader: AvroType, node: Node) -> None:
        places = {each.name: number for number, each in enumerate(reader.fields)}
        for number, each in enumerate(reader.fields):
            for alias in each.aliases:
                places.setdefault(alias, number)
        self._emit(kernel.VALID, node.number)
        found = set()
        for each in writer.fields:
            place = places.get(each.name)
            if place is None or place in found:
                self._skip(each.type)
                continue
            found.add(place)
            try:
                self._read(each.type, reader.fields[place].type, node.children[place])
            except BadSchema as error:
                raise BadSchema(f"{reader.short_name}.{reader.fields[place].name}: {error}") from None
        for number, each in enumerate(reader.fields):
            if number not in found:
                self._default(reader, each, node.children[number])

    def _default(self, reader: AvroType, each: AvroField, node: Node) -> None:
        if each.default is NO_DEFAULT:
            raise BadSchema(f"{reader.short_name}.{each.name} is not written, and has no default to be read as")
        encoded = encode_default(each.type, each.default)
        start = len(self._constants)
        self._constants += encoded
        self._emit(kernel.DEFAULT, start, start + len(encoded))
        self._read(each.type, each.type, node)
        self._emit(kernel.END_DEFAULT)

    def _read_list(self, writer: AvroType, reader: AvroType, node: Node) -> None:
        child = node.children[0]

        def read_item() -> None:
            if writer.kind == "array":
                self._read(writer.inner, reader.inner, child)
                return
            key, value = child.children
            self._emit(kernel.VALID, child.number)
            self._emit(kernel.BYTES, key.number, kernel.TEXT)
            self._read(writer.inner, reader.inner, value)

        self._loop(node.number, child.number, read_item)

    def _read_simple(self, writer: AvroType, reader: AvroType, node: Node) -> None:
        is_whole = writer is self._whole and writer.kind == "bytes"
        match writer.kind:
            case "int" | "long":
                self._emit(kernel.LONG, node.number, _how(writer, reader))
            case "float":
                self._emit(kernel.FLOAT, node.number, kernel.AS_FLOAT if reader.kind == "float" else kernel.AS_DOUBLE)
            case "double":
                self._emit(kernel.DOUBLE, node.number)
            case "boolean":
                self._emit(kernel.BOOLEAN, node.number)
            case "enum":
                self._emit(kernel.ENUM, node.number, self._symbols(writer, reader), len(writer.symbols))
            case _ if is_decimal(reader):
                limits = len(self._constants)
                for limit in (10**reader.precision, -(10**reader.precision)):
                    self._constants += limit.to_bytes(16, signed=True)
                size = writer.size if writer.kind == "fixed" else kernel.REST if is_whole else kernel.SIZED
                self._emit(kernel.DECIMAL, node.number, size, limits)
            case "fixed":
                self._emit(kernel.FIXED, node.number, writer.size)
            case _ if is_whole:
                self._emit(kernel.FIXED, node.number, kernel.REST_AS_TEXT if reader.kind == "string" else kernel.REST)
            case _:
                self._emit(kernel.BYTES, node.number, kernel.TEXT if reader.kind == "string" else 0)

    def _symbols(self, writer: AvroType, reader: AvroType) -> int:
        """The table of an enum: for each of the writer's symbols where the text of the reader's lies, or -1."""
        table: list[int] = []
        for symbol in writer.symbols:
            known = symbol if symbol in reader.symbols else reader.default_symbol
            if known is None:
                table += (-1, 0)
                continue
            table += (len(self._constants), len(known.encode()))
            self._constants += known.encode()
        return self._table(table)

    # -- skipping, and nulls

    def _skip(self, writer: AvroType) -> None:
        match writer.kind:
            case "union":
                self._branch(writer, self._skip)
            case "record":
                # One without bytes may hold others of its kind, each twice, and take for ever.
                if self._has_bytes(writer):
                    self._skip_record(writer)
            case "array":
                self._loop(-1, -1, lambda: self._skip(writer.inner))
            case "map":
                self._loop(-1, -1, lambda: self._skip_entry(writer.inner))
            case "int" | "long" | "enum":
                self._emit(kernel.SKIP_LONG)
            case "bytes" | "string":
                self._emit(kernel.SKIP_BYTES)
            case "null":
                pass
            case kind:
                self._emit(kernel.SKIP, 0, {"boolean": 1, "float": 4, "double": 8}.get(kind, writer.size))

    def _skip_entry(self, values: AvroType) -> None:
        self._emit(kernel.SKIP_BYTES)
        self._skip(values)

    def _skip_record(self, writer: AvroType) -> None:
        """A subroutine, because a record that is only skipped may contain itself."""
        if writer not in self._skipped:
            around = self._emit(kernel.JUMP)
            self._skipped[writer] = self._position()
            for each in writer.fields:
                self._skip(each.type)
            self._emit(kernel.RETURN)
            self._operations[around + 1] = self._position()
        self._emit(kernel.CALL, self._skipped[writer])

    def _has_bytes(self, writer: AvroType) -> bool:
        """Whether a value of the type takes a byte at least."""
        if writer.kind != "record":
            return writer.kind != "null" and (writer.kind != "fixed" or writer.size > 0)
        if writer not in self._takes_bytes:
            self._takes_bytes[writer] = True  # what contains itself, and nothing else, has no value at all
            self._takes_bytes[writer] = any(self._has_bytes(each.type) for each in writer.fields)
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

    def _branch(self, union: AvroType, emit: Callable[[AvroType], None]) -> None:
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
        self._operations += (operation, a, b, c)
        return self._position() - OPERATION_SIZE

    def _table(self, numbers: list[int]) -> int:
        self._tables += numbers
        return len(self._tables) - len(numbers)

    def _position(self) -> int:
        return len(self._operations)


def _matches(writer: AvroType, reader: AvroType) -> bool:
    """Whether values of one type can be read as the other, as far as that can be told without looking inside."""
    if writer.kind == "union" or reader.kind == "union":
        return True
    if writer.kind != reader.kind:
        return reader.kind in _PROMOTIONS.get(writer.kind, ()) and is_decimal(writer) == is_decimal(reader)
    if writer.kind in {"enum", "fixed"}:
        if reader.short_name != writer.short_name and writer.short_name not in reader.aliases:
            return False
        if writer.size != reader.size:
            return False
    return not (is_decimal(writer) and is_decimal(reader) and writer.scale != reader.scale)


def _is_same(writer: AvroType, reader: AvroType) -> bool:
    """Whether a branch of a union is the very type, so that it goes before one that it could be promoted to."""
    if writer.kind != reader.kind or not _matches(writer, reader):
        return False
    if writer.kind == "record":
        return reader.short_name == writer.short_name or writer.short_name in reader.aliases
    return True


def _how(writer: AvroType, reader: AvroType) -> int:
    """How a whole number is written: timestamps as microseconds, whatever unit they come in."""
    if reader.kind in {"float", "double"}:
        return kernel.AS_FLOAT if reader.kind == "float" else kernel.AS_DOUBLE
    if reader.kind == "int":
        return kernel.AS_INT
    if reader.logical and "timestamp" in reader.logical:
        told = writer.logical if writer.logical and "timestamp" in writer.logical else reader.logical
        return _UNITS[told.rpartition("-")[2]]
    return kernel.AS_LONG
