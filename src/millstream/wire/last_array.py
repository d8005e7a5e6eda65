"""Answers that are encoded piece by piece, because there may be so many elements that encoding them at once would take long.

For structures that end with an array: encoded with an empty one, the elements are put in afterwards.
"""

from collections.abc import Sequence
from typing import Final

from millstream.wire.primitives import INT32, unsigned_varint

_NO_TAGS: Final = b"\x00"
_EMPTY: Final = unsigned_varint(1) + _NO_TAGS
_EMPTY_INFLEXIBLE: Final = INT32.pack(0)


def with_elements(encoded: bytes, elements: Sequence[bytes], *, is_flexible: bool = True) -> bytes:
    """A structure whose last field is an empty array, with these elements in it."""
    empty = _EMPTY if is_flexible else _EMPTY_INFLEXIBLE
    assert encoded.endswith(empty)
    count = unsigned_varint(len(elements) + 1) if is_flexible else INT32.pack(len(elements))
    return b"".join((encoded[: -len(empty)], count, *elements, _NO_TAGS if is_flexible else b""))


def framed_with_elements(frame: bytes, elements: Sequence[bytes], *, is_flexible: bool = True) -> bytes:
    """The same for a whole answer, with its size in front."""
    content = with_elements(frame[INT32.size :], elements, is_flexible=is_flexible)
    return INT32.pack(len(content)) + content
