"""A small machine that reads Avro messages into the buffers of Arrow arrays.

Its programs are made by `avro.program` from a writer's and the reader's schema; each operation is four numbers. It runs twice over the
messages: first it only counts entries and bytes per node and finds out which messages are broken, then, with arrays of exactly the right
size, it writes. A message is whole if its program comes to its end exactly where the message does. A broken one, and a null, becomes a null
in the column.

Nothing of a message is trusted: every length is checked against the bytes left, a block of items may not have more items than bytes are
left, nor all blocks together many more than the message has bytes (so nothing loops for long over a few bytes), and nesting has a limit.
`tests/properties` holds all of it equal to fastavro.

    read, and write into a node           control
    LONG node how    FLOAT node how       UNION table count       go on where the table says for the branch that is read
    DOUBLE node      BOOLEAN node         JUMP place              go on there
    BYTES node text  FIXED node size      LIST                    begin a list: its blocks and items follow
    DECIMAL node size limits              NEXT node child place   the next item, or close the list and go on there
    ENUM node table count                 DEFAULT start end       read from the constants, until END_DEFAULT
    read and drop                         CALL place, RETURN      for records that are skipped and may contain themselves
    SKIP_LONG  SKIP_BYTES  SKIP - size    FAIL                    what was read has no place in the reader's schema
    write without reading                 END                     the message is over
    VALID node  NULL node  NULL_BYTES node  NULL_LIST node child

Everything is an address or a number (see `raw_memory`): nodes, operations, tables and constants are blocks of memory that the caller holds.
"""

from typing import Final

import numpy as np

from millstream.arrow.kernels.compiled import Bytes, Ends, Flags, Ints, Number, compiled
from millstream.arrow.kernels.raw_memory import (
    copy_memory,
    load_byte,
    load_long,
    load_varint,
    load_word,
    store_as_double,
    store_as_float,
    store_byte,
    store_long,
    store_widened,
    store_word,
)

(LONG, FLOAT, DOUBLE, BOOLEAN, BYTES, FIXED, DECIMAL, ENUM, SKIP_LONG, SKIP_BYTES, SKIP, VALID, NULL, NULL_BYTES, NULL_LIST) = range(15)
(UNION, JUMP, LIST, NEXT, DEFAULT, END_DEFAULT, CALL, RETURN, FAIL, END) = range(15, 25)
OPERATION_SIZE: Final = 4

# How LONG and FLOAT write what they read.
AS_INT, AS_LONG, AS_MILLIS, AS_NANOS, AS_FLOAT, AS_DOUBLE = range(6)
TEXT: Final = 1
# Instead of a number of bytes for DECIMAL and FIXED: they have their length in front, or are all that is left of the message.
SIZED, REST, REST_AS_TEXT = -1, -2, -3

# What is known of a node while a program runs: entries and bytes so far, and the addresses of its buffers.
COUNT, SIZE, VALIDITY, MAIN, DATA = range(5)
NODE_FIELDS: Final = 8
_NODE_BYTES: Final = 8 * NODE_FIELDS

WRITING: Final = 1
CHECKING_UTF8: Final = 2
FRAME_SIZE: Final = 5
"""A zero and the four bytes of the schema's id, in front of every message."""

FINE, CUT_OFF, TOO_LONG, BAD_LENGTH, BAD_BRANCH, NO_PLACE, BAD_SYMBOL, BAD_BOOLEAN, OUT_OF_RANGE, BAD_COUNT, TOO_DEEP, NOT_UTF8 = range(12)
REASONS: Final = {
    CUT_OFF: "it ends in the middle of a field",
    TOO_LONG: "there are bytes after its last field",
    BAD_LENGTH: "a length in it is negative or larger than the message",
    BAD_BRANCH: "it names a branch that a union does not have",
    NO_PLACE: "it has a value of a type that the reader's schema has no place for",
    BAD_SYMBOL: "it has a symbol of an enum that the reader's schema does not know",
    BAD_BOOLEAN: "a boolean in it is neither 0 nor 1",
    OUT_OF_RANGE: "a number in it is out of range",
    BAD_COUNT: "it has more items than bytes for them",
    TOO_DEEP: "it is nested too deeply",
    NOT_UTF8: "a string in it is not UTF-8",
}
_MOST: Final = 2_147_483_647
_MOST_MILLIS: Final = 9_223_372_036_854_775
_STACK: Final = 128
_ITEMS_WITHOUT_BYTES: Final = 64
"""Items may take no bytes at all (nulls, empty records); so many more than bytes are left are taken, per block. Every other item has a byte
of its own, so a message has at most as many items as bytes, and these: the work for it grows with its length, not with the square."""
_DECIMAL_BYTES: Final = 16


@compiled
def run_messages(
    data: Bytes,
    offsets: Ends,
    entries: Ints,
    null_entry: Number,
    operations: Ints,
    tables: Ints,
    constants: Bytes,
    nodes: Ints,
    flags: Number,
    status: Bytes,
) -> None:
    """Run each message's program, which begins at its entry (negative: it is a null). A message that is found broken gets a status, and
    the entry of a null. The frame of a message is left out."""
    stack = np.empty(_STACK, np.int64)
    saved = nodes.copy()
    bytes_of_nodes = nodes.size * 8
    start, program, table = data.ctypes.data + FRAME_SIZE, operations.ctypes.data, tables.ctypes.data
    constant, node, save, top = constants.ctypes.data, nodes.ctypes.data, saved.ctypes.data, stack.ctypes.data
    for row in range(len(entries)):
        if entries[row] >= 0:
            position, end = start + np.int64(offsets[row]), start + np.int64(offsets[row + 1]) - FRAME_SIZE
            code = run_message(position, end, entries[row], program, table, constant, node, top, flags)
            if code != FINE:
                status[row] = code
                entries[row] = -1
                copy_memory(node, save, bytes_of_nodes)
        if entries[row] < 0:
            run_message(0, 0, null_entry, program, table, constant, node, top, flags)
        if not flags & WRITING:
            copy_memory(save, node, bytes_of_nodes)


@compiled
def read_schema_ids(data: Bytes, offsets: Ends, is_null: Flags, ids: Ints) -> None:
    """Fill in the id of the schema of each message, -1 where there is none."""
    for row in range(len(ids)):
        start, schema_id = np.int64(offsets[row]), np.int64(-1)
        if not is_null[row] and np.int64(offsets[row + 1]) - start >= FRAME_SIZE and data[start] == 0:
            schema_id = np.int64(0)
            for place in range(start + 1, start + FRAME_SIZE):
                schema_id = (schema_id << 8) | np.int64(data[place])
        ids[row] = schema_id


@compiled
def run_message(
    position: Number,
    end: Number,
    entry: Number,
    operations: Number,
    tables: Number,
    constants: Number,
    nodes: Number,
    stack: Number,
    flags: Number,
) -> Number:
    """Run one program over one message: FINE, or why the message is broken. The top of the stack is the items left of the innermost
    list."""
    pc, top = operations + 8 * entry, stack
    message_position, message_end = position, end
    items_left = end - position
    while True:
        operation, a, b, c = load_long(pc), load_long(pc + 8), load_long(pc + 16), load_long(pc + 24)
        pc += 8 * OPERATION_SIZE
        if operation < UNION:
            code, position = run_value(operation, a, b, c, position, end, tables, constants, nodes, flags)
            if code != FINE:
                return code
        elif operation == UNION:
            branch, position = load_varint(position, end)
            if position < 0:
                return CUT_OFF
            if branch < 0 or branch >= b:
                return BAD_BRANCH
            pc = operations + 8 * load_long(tables + 8 * (a + branch))
        elif operation == JUMP:
            pc = operations + 8 * a
        elif operation == NEXT:
            items = load_long(top - 8)
            if items == 0:
                items, position = read_block(position, end)
                if items < 0 and position < 0:
                    return CUT_OFF
                items_left += _ITEMS_WITHOUT_BYTES - items
                if items < 0 or items_left < 0:
                    return BAD_COUNT
            if items > 0:
                store_long(top - 8, items - 1)
            else:
                top -= 8
                pc = operations + 8 * c
                if a >= 0 and not close_list(nodes + _NODE_BYTES * a, nodes + _NODE_BYTES * b, flags):
                    return OUT_OF_RANGE
        elif operation == LIST or operation == CALL:
            if top >= stack + 8 * _STACK:
                return TOO_DEEP
            store_long(top, pc if operation == CALL else 0)
            top += 8
            if operation == CALL:
                pc = operations + 8 * a
        elif operation == RETURN:
            top -= 8
            pc = load_long(top)
        elif operation == DEFAULT:
            message_position, message_end = position, end
            position, end = constants + a, constants + b
            items_left += b - a
        elif operation == END_DEFAULT:
            position, end = message_position, message_end
        elif operation == FAIL:
            return NO_PLACE
        else:
            return FINE if position == end else TOO_LONG


@compiled
def read_block(position: Number, end: Number) -> tuple[Number, Number]:
    """The number of items in the next block of an array or map, 0 after the last; negative if it cannot be."""
    items, position = load_varint(position, end)
    if position < 0:
        return -1, -1
    if items < 0:
        # Then the size of the block follows, for those who skip it.
        items = -items
        size, position = load_varint(position, end)
        if position < 0:
            return -1, -1
        if size < 0 or size > end - position:
            return -1, 0
    if items < 0 or items > end - position + _ITEMS_WITHOUT_BYTES:
        return -1, 0
    return items, position


@compiled
def run_value(
    operation: Number,
    a: Number,
    b: Number,
    c: Number,
    position: Number,
    end: Number,
    tables: Number,
    constants: Number,
    nodes: Number,
    flags: Number,
) -> tuple[Number, Number]:
    """One operation that reads or writes a value: FINE or what is broken, and the position after it."""
    node = nodes + _NODE_BYTES * a
    if operation == LONG or operation == ENUM or operation == SKIP_LONG:
        number, position = load_varint(position, end)
        if position < 0:
            return CUT_OFF, position
        if operation == LONG:
            return write_long(node, b, number, flags), position
        if operation == ENUM:
            return write_symbol(node, number, c, tables + 8 * b, constants, flags), position
        return FINE, position
    if operation >= VALID:
        write_entry(operation, node, nodes + _NODE_BYTES * b, flags)
        return FINE, position
    if operation == BYTES or operation == SKIP_BYTES or (operation == DECIMAL and b == SIZED):
        size, position = load_varint(position, end)
        if position < 0:
            return CUT_OFF, position
        if size < 0 or size > end - position:
            return BAD_LENGTH, position
    else:
        size = fixed_size(operation, b)
        if size < 0:
            size = end - position
        if size > end - position:
            return CUT_OFF, position
    code = FINE
    if operation == BYTES or operation == FIXED:
        is_text = b == TEXT if operation == BYTES else b == REST_AS_TEXT
        if flags & CHECKING_UTF8 and is_text and not is_utf8(position, position + size):
            return NOT_UTF8, position
        code = write_bytes(node, position, size, flags)
    elif operation == DECIMAL:
        code = write_decimal(node, position, size, constants + c, flags)
    elif operation == BOOLEAN:
        code = write_boolean(node, load_byte(position), flags)
    elif operation == FLOAT or operation == DOUBLE:
        write_float(operation, node, b, position, flags)
    return code, position + size


@compiled
def fixed_size(operation: Number, size: Number) -> Number:
    """How many bytes an operation reads that has no length in front of it."""
    if operation == FLOAT:
        return 4
    if operation == DOUBLE:
        return 8
    if operation == BOOLEAN:
        return 1
    return size


@compiled
def add_entry(node: Number, flags: Number) -> Number:
    """Count one more valid entry of a node; its number."""
    index = load_long(node + 8 * COUNT)
    store_long(node + 8 * COUNT, index + 1)
    if flags & WRITING:
        set_bit(load_long(node + 8 * VALIDITY), index)
    return index


@compiled
def set_bit(bits: Number, index: Number) -> None:
    """Set a bit, as Arrow counts them."""
    store_byte(bits + (index >> 3), load_byte(bits + (index >> 3)) | (1 << (index & 7)))


@compiled
def write_entry(operation: Number, node: Number, child: Number, flags: Number) -> None:
    """An entry without a value of its own: a struct that is there, or a null."""
    if operation == VALID:
        add_entry(node, flags)
        return
    index = load_long(node + 8 * COUNT)
    store_long(node + 8 * COUNT, index + 1)
    if flags & WRITING and operation != NULL:
        size = load_long(node + 8 * SIZE) if operation == NULL_BYTES else load_long(child + 8 * COUNT)
        store_word(load_long(node + 8 * MAIN) + 4 * (index + 1), size)


@compiled
def close_list(node: Number, child: Number, flags: Number) -> bool:
    """An entry of a list node, whose items have been written; False if the column has more items than Arrow can count."""
    items = load_long(child + 8 * COUNT)
    if items > _MOST:
        return False
    index = add_entry(node, flags)
    if flags & WRITING:
        store_word(load_long(node + 8 * MAIN) + 4 * (index + 1), items)
    return True


@compiled
def write_long(node: Number, how: Number, number: Number, flags: Number) -> Number:
    """A whole number, as the column wants it."""
    if how == AS_INT and (number > _MOST or number < -_MOST - 1):
        return OUT_OF_RANGE
    if how == AS_MILLIS:
        if number > _MOST_MILLIS or number < -_MOST_MILLIS:
            return OUT_OF_RANGE
        number = number * 1000
    elif how == AS_NANOS:
        number = number // 1000
    index = add_entry(node, flags)
    if flags & WRITING:
        main = load_long(node + 8 * MAIN)
        if how == AS_INT:
            store_word(main + 4 * index, number)
        elif how == AS_FLOAT:
            store_as_float(main + 4 * index, number)
        elif how == AS_DOUBLE:
            store_as_double(main + 8 * index, number)
        else:
            store_long(main + 8 * index, number)
    return FINE


@compiled
def write_symbol(node: Number, number: Number, count: Number, table: Number, constants: Number, flags: Number) -> Number:
    """A symbol of an enum, as text; the table has place and length of each."""
    if number < 0 or number >= count or load_long(table + 16 * number) < 0:
        return BAD_SYMBOL
    return write_bytes(node, constants + load_long(table + 16 * number), load_long(table + 16 * number + 8), flags)


@compiled
def write_float(operation: Number, node: Number, how: Number, position: Number, flags: Number) -> None:
    """A floating-point number: the same bits, or a float as a double."""
    index = add_entry(node, flags)
    if flags & WRITING:
        main = load_long(node + 8 * MAIN)
        if operation == DOUBLE:
            store_long(main + 8 * index, load_long(position))
        elif how == AS_FLOAT:
            store_word(main + 4 * index, load_word(position))
        else:
            store_widened(main + 8 * index, load_word(position))


@compiled
def write_boolean(node: Number, byte: Number, flags: Number) -> Number:
    """A bit."""
    if byte > 1:
        return BAD_BOOLEAN
    index = add_entry(node, flags)
    if flags & WRITING and byte == 1:
        set_bit(load_long(node + 8 * MAIN), index)
    return FINE


@compiled
def write_bytes(node: Number, position: Number, size: Number, flags: Number) -> Number:
    """Bytes, a string or a symbol."""
    before = load_long(node + 8 * SIZE)
    if before + size > _MOST:
        return OUT_OF_RANGE
    index = add_entry(node, flags)
    store_long(node + 8 * SIZE, before + size)
    if flags & WRITING:
        copy_memory(load_long(node + 8 * DATA) + before, position, size)
        store_word(load_long(node + 8 * MAIN) + 4 * (index + 1), before + size)
    return FINE


@compiled
def write_decimal(node: Number, position: Number, size: Number, limits: Number, flags: Number) -> Number:
    """A number of `size` big-endian bytes in two's complement, between the two limits, which have sixteen such bytes each."""
    sign = 0xFF if size > 0 and load_byte(position) >= 0x80 else 0
    for index in range(size - _DECIMAL_BYTES):
        if load_byte(position + index) != sign:
            return OUT_OF_RANGE
    # The first of the sixteen that matter; before it, as many as are missing have the sign.
    first = position + size - _DECIMAL_BYTES
    limit = limits if sign == 0 else limits + _DECIMAL_BYTES
    order = 0
    for index in range(_DECIMAL_BYTES):
        byte = load_byte(first + index) if first + index >= position else sign
        if order == 0:
            order = byte - load_byte(limit + index)
    if order == 0 or (order > 0) == (sign == 0):
        return OUT_OF_RANGE
    entry = add_entry(node, flags)
    if flags & WRITING:
        target = load_long(node + 8 * MAIN) + _DECIMAL_BYTES * (entry + 1) - 1
        for index in range(_DECIMAL_BYTES):
            store_byte(target - index, load_byte(first + index) if first + index >= position else sign)
    return FINE


@compiled
def is_utf8(position: Number, end: Number) -> bool:
    """Whether the bytes are UTF-8: no surrogates, nothing longer than it need be, nothing beyond U+10FFFF."""
    while position < end:
        first = load_byte(position)
        position += 1
        if first < 0x80:
            continue
        if first < 0xC2 or first > 0xF4:
            return False
        more = 1 if first < 0xE0 else 2 if first < 0xF0 else 3
        if more > end - position:
            return False
        second = load_byte(position)
        if (first == 0xE0 and second < 0xA0) or (first == 0xED and second > 0x9F):
            return False
        if (first == 0xF0 and second < 0x90) or (first == 0xF4 and second > 0x8F):
            return False
        for index in range(more):
            if load_byte(position + index) & 0xC0 != 0x80:
                return False
        position += more
    return True
