"""The small pieces that Kafka's messages are made of: varints, strings, counts, tagged fields, node endpoints.

A reader takes a buffer and a position and returns the value and the position after it. Nothing is trusted: a length or a count is
compared with the bytes that are left before anything is allocated, and whatever does not fit is a `MalformedFrame`. A writer returns
bytes. The codecs of Produce and Fetch repeat the cheapest of these lines in place where a call would cost more than the work.

    unsigned varint       7 bits a byte, least significant first, at most 5 bytes (a varlong: 10)
    compact string, bytes unsigned varint of length + 1 (0 = null), then the bytes
    compact array         unsigned varint of count + 1 (0 = null), then the elements
    string, bytes, array  int16, int32, int32 of the length or count (-1 = null), then the content
    tagged fields         unsigned varint of their number, then tag, size (both unsigned varints) and content of each
"""

import struct
from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple

from millstream.buffer import Buffer
from millstream.errors import MalformedFrame

INT16: Final = struct.Struct(">h")
INT32: Final = struct.Struct(">i")
INT64: Final = struct.Struct(">q")
UUID_SIZE: Final = 16
ZERO_UUID: Final = bytes(UUID_SIZE)

_NODE_ENDPOINTS: Final = 0
"""The tag, in the answers of Produce and Fetch."""
_ONE_BYTE: Final = tuple(bytes((value,)) for value in range(128))
_SMALL: Final = 1024


class NodeEndpoint(NamedTuple):
    """The address of a broker that an answer refers its client to (KIP-951)."""

    node_id: int
    host: str
    port: int
    rack: str | None = None


def read_unsigned_varint(buffer: Buffer, position: int) -> tuple[int, int]:
    """An unsigned varint of at most five bytes; most have one or two."""
    try:
        value = buffer[position]
        if value < 0x80:
            return value, position + 1
        byte = buffer[position + 1]
        value = value & 0x7F | byte << 7
        if byte < 0x80:
            return value, position + 2
        value &= 0x3FFF
        for shift in (14, 21, 28):
            byte = buffer[position + shift // 7]
            value |= (byte & 0x7F) << shift
            if byte < 0x80:
                return value, position + shift // 7 + 1
    except IndexError:
        raise MalformedFrame("the message ends inside a varint") from None
    raise MalformedFrame("a varint is longer than five bytes")


def read_unsigned_varlong(buffer: Buffer, position: int) -> tuple[int, int]:
    """An unsigned varint of at most ten bytes, as 64 bits take."""
    value = 0
    try:
        for shift in range(0, 70, 7):
            byte = buffer[position]
            position += 1
            value |= (byte & 0x7F) << shift
            if byte < 0x80:
                return value, position
    except IndexError:
        raise MalformedFrame("the message ends inside a varint") from None
    raise MalformedFrame("a varint is longer than ten bytes")


def read_int16(buffer: Buffer, position: int) -> tuple[int, int]:
    """A signed 16-bit number."""
    try:
        return INT16.unpack_from(buffer, position)[0], position + 2
    except struct.error:
        raise MalformedFrame("the message ends inside a number") from None


def read_int32(buffer: Buffer, position: int) -> tuple[int, int]:
    """A signed 32-bit number."""
    try:
        return INT32.unpack_from(buffer, position)[0], position + 4
    except struct.error:
        raise MalformedFrame("the message ends inside a number") from None


def check_left(buffer: Buffer, position: int, *, size: int) -> None:
    """Complain unless `size` bytes are left at `position`."""
    if size < 0 or position + size > len(buffer):
        raise MalformedFrame(f"a field of {size} bytes does not fit into the {len(buffer) - position} bytes left of the message")


def read_text(buffer: Buffer, position: int, *, size: int) -> tuple[str, int]:
    """`size` bytes of UTF-8."""
    end = position + size
    if size < 0 or end > len(buffer):
        raise MalformedFrame(f"a string of {size} bytes does not fit into the {len(buffer) - position} bytes left of the message")
    try:
        return str(buffer[position:end], "utf-8"), end
    except UnicodeDecodeError:
        raise MalformedFrame("a string is not valid UTF-8") from None


def read_nullable_string(buffer: Buffer, position: int, *, flexible: bool) -> tuple[str | None, int]:
    """A string that may be null, in the compact form if `flexible`."""
    if flexible:
        size, position = read_unsigned_varint(buffer, position)
        size -= 1
    else:
        size, position = read_int16(buffer, position)
    return (None, position) if size == -1 else read_text(buffer, position, size=size)


def read_string(buffer: Buffer, position: int, *, flexible: bool) -> tuple[str, int]:
    """A string that must not be null, in the compact form if `flexible`."""
    if flexible:
        size, position = read_unsigned_varint(buffer, position)
        size -= 1
    else:
        size, position = read_int16(buffer, position)
    if size == -1:
        raise MalformedFrame("a string that is required is null")
    return read_text(buffer, position, size=size)


def read_count(buffer: Buffer, position: int, *, flexible: bool, element_size: int) -> tuple[int, int]:
    """The count of an array that must not be null and whose elements take at least `element_size` bytes each."""
    if flexible:
        count, position = read_unsigned_varint(buffer, position)
        count -= 1
    else:
        count, position = read_int32(buffer, position)
    if count < 0:
        raise MalformedFrame("an array that is required is null")
    if count * element_size > len(buffer) - position:
        raise MalformedFrame(f"an array of {count} elements does not fit into the {len(buffer) - position} bytes left of the message")
    return count, position


def read_tags(buffer: Buffer, position: int) -> tuple[list[tuple[int, int, int]], int]:
    """The tagged fields as (tag, start, end) of their contents; most often there are none."""
    count, position = read_unsigned_varint(buffer, position)
    if count == 0:
        return [], position
    if count * 2 > len(buffer) - position:
        raise MalformedFrame(f"{count} tagged fields do not fit into the {len(buffer) - position} bytes left of the message")
    tags = []
    for _ in range(count):
        tag, position = read_unsigned_varint(buffer, position)
        size, position = read_unsigned_varint(buffer, position)
        check_left(buffer, position, size=size)
        tags.append((tag, position, position + size))
        position += size
    return tags, position


def skip_tags(buffer: Buffer, position: int) -> int:
    """The position after tagged fields that are not known here."""
    if position < len(buffer) and buffer[position] == 0:
        return position + 1
    return read_tags(buffer, position)[1]


def unsigned_varint(value: int) -> bytes:
    """`value` as an unsigned varint."""
    if value < 0x80:
        return _ONE_BYTE[value]
    encoded = bytearray()
    while value >= 0x80:
        encoded.append(value & 0x7F | 0x80)
        value >>= 7
    encoded.append(value)
    return bytes(encoded)


def zigzag_varint(value: int) -> bytes:
    """`value`, which may be negative, as records and Avro write numbers: small ones of either sign are short."""
    if 0 <= value < _SMALL:
        return _SMALL_ZIGZAGS[value]
    return unsigned_varint(value << 1 if value >= 0 else (-value << 1) - 1)


_SMALL_ZIGZAGS: Final = tuple(unsigned_varint(value << 1) for value in range(_SMALL))
"""Nearly all lengths and offset deltas."""


def compact_string(text: str | None) -> bytes:
    """A string, or null, in the compact form."""
    if text is None:
        return b"\x00"
    content = text.encode()
    return unsigned_varint(len(content) + 1) + content


def nullable_string(text: str | None) -> bytes:
    """A string, or null, with a length of 16 bits."""
    if text is None:
        return b"\xff\xff"
    content = text.encode()
    return INT16.pack(len(content)) + content


def tagged_fields(fields: Iterator[tuple[int, bytes]] | list[tuple[int, bytes]]) -> bytes:
    """Tagged fields from (tag, content) in ascending order of the tags."""
    parts: list[bytes] = []
    count = 0
    for tag, content in fields:
        parts += (unsigned_varint(tag), unsigned_varint(len(content)), content)
        count += 1
    return unsigned_varint(count) + b"".join(parts)


def encode_node_endpoints(endpoints: Sequence[NodeEndpoint]) -> bytes:
    """The tagged fields of an answer that has endpoints and nothing else to add."""
    parts = [unsigned_varint(len(endpoints) + 1)]
    for node_id, host, port, rack in endpoints:
        parts += (INT32.pack(node_id), compact_string(host), INT32.pack(port), compact_string(rack), b"\x00")
    return tagged_fields([(_NODE_ENDPOINTS, b"".join(parts))])
