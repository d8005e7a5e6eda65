"""Avro messages with the id of their schema in front, as every registry's clients write them: `00`, four bytes of id, the message.

The schemas of ids are asked of the registry once per process. An id that the registry does not know, and a schema that cannot be brought to
the reader's, break the messages that have it, not the query; a registry that does not answer is an error.

`AvroDecoder` knows programs, not registries: each writer's schema is added before messages of it are read.
"""

from collections.abc import Sequence
from time import monotonic
from typing import Final

import numpy as np
import pyarrow as pa

from millstream.arrow.avro.column_types import BadSchema, parse_avro
from millstream.arrow.avro.program import Compiler
from millstream.arrow.binary_columns import BinaryColumn
from millstream.arrow.columns import Format
from millstream.arrow.field_decoding import TypedColumn
from millstream.arrow.kernels.avro_kernel import CHECKING_UTF8, REASONS, WRITING, read_schema_ids, run_messages
from millstream.arrow.kernels.compiled import Bytes, Ends, Ints
from millstream.avro.schema import Schema
from millstream.registry.addresses import Addresses
from millstream.registry.client import RegistryClient
from millstream.registry.errors import RegistryError

NO_PROGRAM: Final = -1

_NOT_FOUND: Final = 404
_UNKNOWN_FOR_S: Final = 30.0
"""How long an id that the registry did not know is not asked for again."""

_formats: "dict[tuple[tuple[str, ...], Addresses, pa.DataType], AvroFormat]" = {}


def avro_format(schemas: Sequence[str], registry: Addresses, kind: pa.DataType) -> "AvroFormat":
    """The format for this reader's schema: the same one for every task of the process, with what it has learnt."""
    name = tuple(schemas), registry, kind
    if name not in _formats:
        _formats[name] = AvroFormat(parse_avro(schemas), registry, kind)
    return _formats[name]


class AvroFormat:
    """Reads messages of any schema as columns of one, in one thread."""

    name: Format = "avro"

    def __init__(self, reader: Schema, registry: Addresses, kind: pa.DataType) -> None:
        self._kind = kind
        self._decoder = AvroDecoder(reader)
        self._registry = RegistryClient(registry)
        self._entries: dict[int, int] = {}
        self._problems: dict[int, tuple[str, float]] = {}

    def close(self) -> None:
        """End the connections to the registry; what was learnt stays."""
        self._registry.close()

    def read(self, column: BinaryColumn) -> TypedColumn:
        ids = schema_ids(column)
        entries = self._look_up(ids)
        array, status = self._decoder.decode(column.data, column.offsets, entries.copy(), self._kind)
        broken = ((status != 0) | (entries == NO_PROGRAM)) & ~column.is_null
        if not broken.any():
            return TypedColumn(array)
        return TypedColumn(array, broken, lambda row: self._explain(int(ids[row]), int(status[row])))

    def _look_up(self, ids: Ints) -> Ints:
        """The entry of each message's program."""
        if len(ids) and (ids == ids[0]).all():
            return np.full(len(ids), self._entry(int(ids[0])), np.int64)
        different, where = np.unique(ids, return_inverse=True)
        return np.array([self._entry(int(schema_id)) for schema_id in different], np.int64)[where]

    def _entry(self, schema_id: int) -> int:
        if schema_id < 0:
            return NO_PROGRAM
        known = self._entries.get(schema_id)
        if known is None:
            _, until = self._problems.get(schema_id, ("", 0.0))
            known = NO_PROGRAM if monotonic() < until else self._learn(schema_id)
        return known

    def _learn(self, schema_id: int) -> int:
        try:
            registered = self._registry.schema_by_id(schema_id)
            references = [reference.schema for reference in self._registry.resolved_references(registered)]
            if registered.schema_type != "AVRO":
                raise BadSchema(f"it is a schema of type {registered.schema_type}, not AVRO")
            self._entries[schema_id] = self._decoder.add(parse_avro([*references, registered.schema]))
        except BadSchema as error:
            self._problems[schema_id] = f"its schema {schema_id} cannot be brought to the reader's: {error}", monotonic() + _UNKNOWN_FOR_S
        except RegistryError as error:
            if error.status != _NOT_FOUND:
                raise
            self._problems[schema_id] = f"its schema {schema_id} is not in the registry", monotonic() + _UNKNOWN_FOR_S
        return self._entries.get(schema_id, NO_PROGRAM)

    def _explain(self, schema_id: int, status: int) -> str:
        if schema_id < 0:
            return "it does not begin with a zero byte and the id of a schema"
        return REASONS[status] if status else self._problems[schema_id][0]


class AvroDecoder:
    """Reads messages into a column of the reader's type."""

    def __init__(self, reader: Schema) -> None:
        self._compiler = Compiler(reader)
        self._program = self._compiler.program()

    def add(self, writer: Schema) -> int:
        """Learn a writer's schema; the entry to give for its messages. `BadSchema` if it cannot be brought to the reader's."""
        entry = self._compiler.add(writer)
        self._program = self._compiler.program()
        return entry

    def decode(self, data: Bytes, offsets: Ends, entries: Ints, kind: pa.DataType) -> tuple[pa.Array, Bytes]:
        """The column, as Arrow type `kind`, and the status of each message. `entries` has the entry of each message's schema, or
        `NO_PROGRAM` for what is to be a null; it is changed."""
        status = np.zeros(len(entries), np.uint8)
        array = self._decode(data, offsets, entries, status, kind, flags=0)
        if not _is_text_valid(array):
            # Rare, so it is looked for only when it is known to be there.
            array = self._decode(data, offsets, entries, status, kind, flags=CHECKING_UTF8)
        return array, status

    def _decode(self, data: Bytes, offsets: Ends, entries: Ints, status: Bytes, kind: pa.DataType, *, flags: int) -> pa.Array:
        layout, program, null_entry = self._compiler.layout, self._program, self._compiler.null_entry
        counted = layout.count_entries()
        run_messages(data, offsets, entries, null_entry, *program, counted, flags, status)
        nodes, buffers = layout.allocate(counted)
        run_messages(data, offsets, entries, null_entry, *program, nodes, WRITING, status)
        return layout.to_arrow(kind, nodes, buffers)


def schema_ids(column: BinaryColumn) -> Ints:
    """The id of the schema of each message; -1 where there is none."""
    ids = np.empty(len(column.is_null), np.int64)
    read_schema_ids(column.data, column.offsets, column.is_null, ids)
    return ids


def _is_text_valid(array: pa.Array) -> bool:
    try:
        array.validate(full=True)
    except pa.ArrowInvalid:
        return False
    return True
