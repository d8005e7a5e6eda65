"""A cursor over the fields of one record of `__consumer_offsets`, or of what a member wrote into its subscription.

Nothing is believed: whatever does not fit into the bytes that are left is a `MalformedFrame`.
"""

import struct
from typing import Final
from uuid import UUID

from millstream.errors import MalformedFrame
from millstream.wire.primitives import UUID_SIZE, read_count, read_nullable_string, read_string, read_tags, read_unsigned_varint

_INT8: Final = struct.Struct(">b")
_INT16: Final = struct.Struct(">h")
_INT32: Final = struct.Struct(">i")
_INT64: Final = struct.Struct(">q")


class FieldReader:
    """Reads one field after the other."""

    __slots__ = ("_buffer", "_position")

    def __init__(self, buffer: bytes) -> None:
        self._buffer = buffer
        self._position = 0

    def _number(self, layout: struct.Struct) -> int:
        try:
            value: int = layout.unpack_from(self._buffer, self._position)[0]
        except struct.error:
            raise MalformedFrame("a record ends inside a number") from None
        self._position += layout.size
        return value

    def int8(self) -> int:
        """8 bits."""
        return self._number(_INT8)

    def int16(self) -> int:
        """16 bits."""
        return self._number(_INT16)

    def int32(self) -> int:
        """32 bits."""
        return self._number(_INT32)

    def int64(self) -> int:
        """64 bits."""
        return self._number(_INT64)

    def uuid(self) -> UUID:
        """A topic id."""
        return UUID(bytes=self._take(UUID_SIZE))

    def string(self) -> str:
        """A string with a length of 16 bits."""
        text, self._position = read_string(self._buffer, self._position, flexible=False)
        return text

    def nullable_string(self) -> str | None:
        """A string with a length of 16 bits, or null."""
        text, self._position = read_nullable_string(self._buffer, self._position, flexible=False)
        return text

    def bytes32(self) -> bytes:
        """Bytes with a length of 32 bits; null is read as empty."""
        return self._take(max(self.int32(), 0))

    def count32(self) -> int:
        """The count of an array, 32 bits."""
        count, self._position = read_count(self._buffer, self._position, flexible=False, element_size=1)
        return count

    def int32s(self) -> tuple[int, ...]:
        """An array of numbers of 32 bits, all at once."""
        count = self.count32()
        return struct.unpack(f">{count}i", self._take(count * _INT32.size))

    def compact_string(self) -> str:
        """A string in the compact form."""
        text, self._position = read_string(self._buffer, self._position, flexible=True)
        return text

    def compact_nullable_string(self) -> str | None:
        """A string in the compact form, or null."""
        text, self._position = read_nullable_string(self._buffer, self._position, flexible=True)
        return text

    def compact_bytes(self) -> bytes:
        """Bytes in the compact form; null is read as empty."""
        size, self._position = read_unsigned_varint(self._buffer, self._position)
        return self._take(max(size - 1, 0))

    def compact_count(self) -> int:
        """The count of an array in the compact form."""
        count, self._position = read_count(self._buffer, self._position, flexible=True, element_size=1)
        return count

    def tags(self) -> dict[int, bytes]:
        """The contents of the tagged fields."""
        spans, self._position = read_tags(self._buffer, self._position)
        return {tag: self._buffer[start:end] for tag, start, end in spans}

    def _take(self, size: int) -> bytes:
        content = self._buffer[self._position : self._position + size]
        if len(content) != size:
            raise MalformedFrame(f"a field of {size} bytes in the {len(content)} bytes left of a record")
        self._position += size
        return content
