"""Jute, the serialisation of ZooKeeper: big-endian numbers, and strings and buffers after a 4-byte length where -1 is "none".

It carries the client protocol and, because one codec is enough, the records of the journal. `JuteReader` trusts nothing: every length is
checked against the bytes that are there, and what does not fit raises `MarshallingError`.
"""

import struct

from millstream.zookeeper.errors import MarshallingError

INT = struct.Struct(">i")
LONG = struct.Struct(">q")


def encode_buffer(value: bytes | None) -> bytes:
    """A buffer after its length."""
    return b"\xff\xff\xff\xff" if value is None else INT.pack(len(value)) + value


def encode_string(value: str) -> bytes:
    """UTF-8 after its length in bytes."""
    encoded = value.encode("utf-8")
    return INT.pack(len(encoded)) + encoded


class JuteReader:
    """Reads values one after the other from bytes of unknown origin."""

    __slots__ = ("_content", "_position")

    def __init__(self, content: bytes, position: int = 0) -> None:
        self._content = content
        self._position = position

    @property
    def remaining(self) -> int:
        """How many bytes are left."""
        return len(self._content) - self._position

    def read_int(self) -> int:
        """Four bytes, signed."""
        return self.read_struct(INT)[0]

    def read_long(self) -> int:
        """Eight bytes, signed."""
        return self.read_struct(LONG)[0]

    def read_bool(self) -> bool:
        """One byte, 0 or 1."""
        return self._take(1) != b"\x00"

    def read_struct(self, layout: struct.Struct) -> tuple[int, ...]:
        """Several numbers at once."""
        position = self._position
        self._position = position + layout.size
        try:
            return layout.unpack_from(self._content, position)
        except struct.error as error:
            raise MarshallingError("the request ends in the middle of a number") from error

    def read_buffer(self) -> bytes | None:
        """A buffer, or None."""
        length = self.read_int()
        if length < 0:
            return None
        return self._take(length)

    def read_string(self) -> str:
        """A string; "none" reads as the empty one, as kazoo writes it."""
        try:
            return (self.read_buffer() or b"").decode("utf-8")
        except UnicodeDecodeError as error:
            raise MarshallingError("a string is not UTF-8") from error

    def read_count(self, smallest_element: int) -> int:
        """The number of elements of a vector, refused when the bytes for them cannot be there."""
        count = max(self.read_int(), 0)
        if count * smallest_element > self.remaining:
            raise MarshallingError(f"a vector of {count} elements in {self.remaining} bytes")
        return count

    def _take(self, length: int) -> bytes:
        position = self._position
        if length > len(self._content) - position:
            raise MarshallingError(f"{length} bytes announced, {len(self._content) - position} there")
        self._position = position + length
        return self._content[position : position + length]
