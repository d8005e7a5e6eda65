"""Where the values of an Avro type go: a tree of nodes, one per Arrow array, and the arrays made of what the kernel wrote.

All messages of a query are brought to one schema, the reader's, so there is one layout, whatever schemas they were written with.

    node kind   buffers, besides a bit per entry that says whether it is valid
    NOTHING     none                                  null
    BITS        a bit per entry                       boolean
    WORDS       four bytes per entry                  int, float, date
    LONGS       eight bytes per entry                 long, double, timestamps
    DECIMALS    sixteen bytes per entry               decimal
    BYTES       offsets, bytes                        string, binary, enum
    LIST        offsets; one child                    array, map (whose child is a STRUCT of key and value)
    STRUCT      none; one child per field             record, union of several types
"""

from dataclasses import dataclass, field
from typing import Final, NamedTuple

import numpy as np
import pyarrow as pa

from millstream.arrow.avro.column_types import column_branches, column_decimal
from millstream.arrow.kernels.avro_kernel import COUNT, DATA, NODE_FIELDS, SIZE, VALIDITY
from millstream.arrow.kernels.compiled import Bytes, Ints
from millstream.avro.schema import Array, Map, Primitive, Record, Schema, Union

NOTHING, BITS, WORDS, LONGS, DECIMALS, BYTES, LIST, STRUCT = range(8)
_KINDS: Final = {
    "null": NOTHING,
    "boolean": BITS,
    "int": WORDS,
    "float": WORDS,
    "long": LONGS,
    "double": LONGS,
    "bytes": BYTES,
    "string": BYTES,
    "fixed": BYTES,
    "enum": BYTES,
}

_WIDTHS: Final = {WORDS: 4, LONGS: 8, DECIMALS: 16}


@dataclass(eq=False, slots=True)
class Node:
    """One Arrow array: its number, its kind, and those below it."""

    number: int
    kind: int
    children: "list[Node]" = field(default_factory=list)


class Buffers(NamedTuple):
    """The memory of one node: which entries are valid, values or offsets, and the bytes that offsets point into."""

    validity: Bytes
    main: Bytes
    data: Bytes


class Layout:
    """The nodes of a reader's type; the first one is the column itself."""

    def __init__(self, schema: Schema) -> None:
        self.nodes: list[Node] = []
        self.root = self._add(schema)

    def count_entries(self) -> Ints:
        """The nodes for a run that only counts."""
        return np.zeros((len(self.nodes), NODE_FIELDS), np.int64)

    def allocate(self, counted: Ints) -> tuple[Ints, list[Buffers]]:
        """The nodes for a run that writes what was counted, and the buffers that they point to."""
        nodes = np.zeros((len(self.nodes), NODE_FIELDS), np.int64)
        allocated = []
        for node in self.nodes:
            count, size = int(counted[node.number, COUNT]), int(counted[node.number, SIZE])
            buffers = Buffers(
                validity=np.zeros(-(-count // 8), np.uint8),
                main=np.zeros(_main_bytes(node.kind, count), np.uint8),
                data=np.empty(size, np.uint8),
            )
            nodes[node.number, VALIDITY : DATA + 1] = [buffer.ctypes.data for buffer in buffers]
            allocated.append(buffers)
        return nodes, allocated

    def to_arrow(self, kind: pa.DataType, nodes: Ints, buffers: list[Buffers]) -> pa.Array:
        """The column, of that Arrow type."""
        return _to_arrow(self.root, kind, nodes, buffers)

    def _add(self, schema: Schema) -> Node:
        node = Node(len(self.nodes), NOTHING)
        if isinstance(schema, Union):
            branches = column_branches(schema)
            if len(branches) == 1:
                return self._add(branches[0])
            self.nodes.append(node)
            if branches:
                node.kind, node.children = STRUCT, [self._add(branch) for branch in branches]
            return node
        self.nodes.append(node)
        if isinstance(schema, Record):
            node.kind, node.children = STRUCT, [self._add(field.schema) for field in schema.fields]
        elif isinstance(schema, Array):
            node.kind, node.children = LIST, [self._add(schema.items)]
        elif isinstance(schema, Map):
            node.kind, node.children = LIST, [self._add_entry(schema.values)]
        else:
            node.kind = _KINDS[schema.kind] if column_decimal(schema) is None else DECIMALS
        return node

    def _add_entry(self, values: Schema) -> Node:
        """The node of a map's entries: key and value."""
        entry = Node(len(self.nodes), STRUCT)
        self.nodes.append(entry)
        entry.children = [self._add(Primitive("string")), self._add(values)]
        return entry


def _main_bytes(kind: int, count: int) -> int:
    """The size of a node's main buffer: values of a fixed width, or offsets."""
    if kind == BITS:
        return -(-count // 8)
    return 4 * (count + 1) if kind in {BYTES, LIST} else _WIDTHS.get(kind, 0) * count


def _to_arrow(node: Node, kind: pa.DataType, nodes: Ints, allocated: list[Buffers]) -> pa.Array:
    count = int(nodes[node.number, COUNT])
    if node.kind == NOTHING:
        return pa.nulls(count, kind)
    own = allocated[node.number]
    buffers = [pa.py_buffer(own.validity)]
    children: list[pa.Array] | None = None
    if node.kind == STRUCT:
        kinds = [kind.field(index).type for index in range(kind.num_fields)]
        children = [_to_arrow(child, each, nodes, allocated) for child, each in zip(node.children, kinds, strict=True)]
    else:
        buffers.append(pa.py_buffer(own.main))
    if node.kind == BYTES:
        buffers.append(pa.py_buffer(own.data))
    elif node.kind == LIST:
        children = [_list_child(node.children[0], kind, nodes, allocated)]
    return pa.Array.from_buffers(kind, count, buffers, children=children)


def _list_child(node: Node, kind: pa.DataType, nodes: Ints, allocated: list[Buffers]) -> pa.Array:
    if not pa.types.is_map(kind):
        return _to_arrow(node, kind.value_type, nodes, allocated)
    keys, values = node.children
    children = [_to_arrow(keys, kind.key_type, nodes, allocated), _to_arrow(values, kind.item_type, nodes, allocated)]
    # The entries of a map are never null.
    entry = pa.struct([kind.key_field, kind.item_field])
    return pa.Array.from_buffers(entry, int(nodes[node.number, COUNT]), [None], children=children)
