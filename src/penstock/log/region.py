"""A piece of a segment file that waits to be sent: what a fetch answers instead of bytes.

It holds the handle, so the file stays open for the send even when retention or truncation has dropped its segment. It never holds the
bytes: they go from the page cache to the socket.
"""

from typing import NamedTuple

from penstock.files import FileHandle


class FileRegion(NamedTuple):
    """`length` bytes of an open file from `position` on."""

    handle: FileHandle
    position: int
    length: int
