"""Messages of several Avro schemas to one column.

The decoder knows programs, not registries: whoever uses it adds each writer's schema under its id before messages of it are read.
"""

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from millstream.spark.formats.avro_program import Compiler
from millstream.spark.formats.avro_type import AvroType
from millstream.spark.kernels.avro_kernel import CHECKING_UTF8, WRITING, run_messages

Bytes = npt.NDArray[np.uint8]
Ints = npt.NDArray[np.int64]
Ends = npt.NDArray[np.int32]

NO_PROGRAM = -1


class AvroDecoder:
    """Reads messages into a column of the reader's type."""

    def __init__(self, reader: AvroType) -> None:
        self._compiler = Compiler(reader)
        self._program = self._compiler.program()

    def add(self, writer: AvroType) -> int:
        """Learn a writer's schema; the entry to give for its messages. `BadSchema` if it cannot be brought to the reader's."""
        entry = self._compiler.add(writer)
        self._program = self._compiler.program()
        return entry

    def decode(self, data: Bytes, offsets: Ends, entries: Ints, kind: "pa.DataType") -> "tuple[pa.Array, Bytes]":
        """The column, as Arrow type `kind`, and the status of each message. `entries` has the entry of each message's schema, or
        `NO_PROGRAM` for what is to be a null; it is changed."""
        status = np.zeros(len(entries), np.uint8)
        array = self._decode(data, offsets, entries, status, kind, flags=0)
        if not _is_text_valid(array):
            # Rare, so it is looked for only when it is known to be there.
            array = self._decode(data, offsets, entries, status, kind, flags=CHECKING_UTF8)
        return array, status

    def _decode(self, data: Bytes, offsets: Ends, entries: Ints, status: Bytes, kind: "pa.DataType", *, flags: int) -> "pa.Array":
        layout, program, null_entry = self._compiler.layout, self._program, self._compiler.null_entry
        counted = layout.count_entries()
        run_messages(data, offsets, entries, null_entry, *program, counted, flags, status)
        nodes, buffers = layout.allocate(counted)
        run_messages(data, offsets, entries, null_entry, *program, nodes, WRITING, status)
        return layout.to_arrow(kind, nodes, buffers)


def _is_text_valid(array: "pa.Array") -> bool:
    try:
        array.validate(full=True)
    except pa.ArrowInvalid:
        return False
    return True
