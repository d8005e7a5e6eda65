"""A file that grows, as `tail -F` reads it, and where in it one was: complete lines, through rotation, truncation and a restart.

A file is known by its device and inode and by its first bytes, not by its name:

    renamed, and a new file in its place   the old one is read to its end, and for a while longer, since its writer may not have noticed;
                                           a last line without a newline counts when that while is over
    cut off (copytruncate), or overwritten it is shorter than what was read, or begins with other bytes: it is read from its beginning
    a restart after any of these           the file that was being read is looked for under other names in the same directory, and so are
                                           those that were rotated away after it: name.1, name-20261116, not compressed ones

What is read is handed out as lines with the position after each; what is remembered is the position of the last line that was delivered.
"""

import os
import re
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, BinaryIO, Final, NamedTuple, Self

from millstream.errors import CommandFailed, UsageError

HEAD_BYTES: Final = 256
CHUNK_BYTES: Final = 1 << 18
LONGEST_LINE: Final = 16 << 20
ROTATED_GRACE_S: Final = 5.0
_ROTATED_SUFFIX: Final = re.compile(r"[.-]\d[\d.T_-]*")


class FilePlace(NamedTuple):
    """How far a file was read: which one it is, and up to which byte."""

    device: int
    inode: int
    position: int
    head: bytes

    def document(self) -> dict[str, Any]:
        """As the state file holds it."""
        return {"device": self.device, "inode": self.inode, "position": self.position, "head": self.head.hex()}

    @classmethod
    def of(cls, document: dict[str, Any]) -> Self:
        """From the state file."""
        return cls(int(document["device"]), int(document["inode"]), int(document["position"]), bytes.fromhex(document["head"]))


@dataclass
class OpenFile:
    """One file that is being read."""

    file: BinaryIO
    position: int = 0
    """After the last complete line that was handed out."""
    head: bytes = b""
    rest: bytes = b""
    """What was read after it: a line that has no end yet."""
    rotated_at: float | None = None

    @classmethod
    def at(cls, path: Path, place: FilePlace | None = None) -> "OpenFile":
        """Open a file, at a place where it was left."""
        try:
            file = path.open("rb", buffering=0)
        except OSError as error:
            raise CommandFailed(f"{path} cannot be followed: {error.strerror}.") from error
        return cls(file, position=0 if place is None else place.position, head=b"" if place is None else place.head)

    @property
    def place(self) -> FilePlace:
        """Where it is read, to be remembered."""
        found = os.fstat(self.file.fileno())
        return FilePlace(found.st_dev, found.st_ino, self.position, self.head)

    def lines(self) -> Iterator[bytes]:
        """The complete lines of the next chunk, without their newlines."""
        self._notice_rewriting()
        chunk = os.pread(self.file.fileno(), CHUNK_BYTES, self.position + len(self.rest))
        *complete, rest = (self.rest + chunk).split(b"\n") if chunk else [self.rest]
        self.rest = rest
        for line in complete:
            yield line
            self.position += len(line) + 1  # only now: an interruption may repeat a line, and must not lose one
        if len(rest) > LONGEST_LINE:
            raise CommandFailed(
                f"{self.file.name}: a line at byte {self.position} is longer than {LONGEST_LINE} bytes; is this a text file?"
            )
        if len(self.head) < HEAD_BYTES:
            self.head = os.pread(self.file.fileno(), min(HEAD_BYTES, self.position), 0)

    def is_at_end(self) -> bool:
        """Whether all that is there has been read."""
        return self.position + len(self.rest) >= os.fstat(self.file.fileno()).st_size

    def _notice_rewriting(self) -> None:
        size = os.fstat(self.file.fileno()).st_size
        if size < self.position + len(self.rest) or os.pread(self.file.fileno(), len(self.head), 0) != self.head:
            self.position, self.head, self.rest = 0, b"", b""


@dataclass
class FollowedFile:
    """A path whose present and former files are read, the oldest first."""

    path: Path
    saved: list[FilePlace] = field(default_factory=list)
    from_end: bool = False
    """Whether a file that was never seen is read from its end, when the program starts."""
    clock: Callable[[], float] = time.monotonic
    remarks: list[str] = field(default_factory=list)
    _open: list[OpenFile] = field(default_factory=list)

    def start(self) -> None:
        """Open what was being read, and what has come since."""
        if self.path.is_dir():
            raise UsageError(f"{self.path} is a directory: name its files.")
        places = {(place.device, place.inode): place for place in self.saved}
        candidates = _present_and_rotated(self.path)
        known = [index for index, path in enumerate(candidates) if _is(path, places)]
        if self.saved and not known:
            self.remarks.append(f"the file that {self.path} was is not there any more: what was not read of it is lost")
        # What was rotated away after the file that was read last has never been seen; what is older had been read, or was never asked for.
        for path in candidates[min(known) :] if known else candidates[-1:]:
            if path == self.path and not path.exists():
                continue
            self._open.append(OpenFile.at(path, _is(path, places)))
            if path != self.path:
                self._open[-1].rotated_at = self.clock()
        if self.from_end and not self.saved:
            for one in self._open:
                one.position = os.fstat(one.file.fileno()).st_size

    def lines(self) -> Iterator[bytes]:
        """What has come, a chunk of each file; nothing if there is nothing at the moment."""
        self._notice_rotation()
        for one in list(self._open):
            yield from one.lines()
            if one.rotated_at is not None and one.is_at_end() and self.clock() - one.rotated_at > ROTATED_GRACE_S:
                if one.rest:
                    yield one.rest
                one.file.close()
                self._open.remove(one)

    def places(self) -> list[FilePlace]:
        """What has to be remembered, once all lines that were handed out are delivered."""
        return [one.place for one in self._open]

    def close(self) -> None:
        """Close the files."""
        while self._open:
            self._open.pop().file.close()

    def _notice_rotation(self) -> None:
        try:
            found = self.path.stat()
        except FileNotFoundError:
            return
        current = self._open[-1] if self._open and self._open[-1].rotated_at is None else None
        if current is not None:
            here = current.place
            if (here.device, here.inode) == (found.st_dev, found.st_ino):
                return
            current.rotated_at = self.clock()
        self._open.append(OpenFile.at(self.path))


def _present_and_rotated(path: Path) -> list[Path]:
    """Files that the path has been, the oldest first, and then the path itself."""
    try:
        beside = [one for one in path.parent.iterdir() if _ROTATED_SUFFIX.fullmatch(one.name.removeprefix(path.name)) and one.is_file()]
    except OSError:
        beside = []
    rotated = [one for one in beside if one.name.startswith(path.name)]
    return [*sorted(rotated, key=lambda one: one.stat().st_mtime_ns), path]


def _is(path: Path, places: dict[tuple[int, int], FilePlace]) -> FilePlace | None:
    """The place in this file, if it is one of those."""
    try:
        with path.open("rb") as file:
            found = os.fstat(file.fileno())
            place = places.get((found.st_dev, found.st_ino))
            return place if place is not None and file.read(len(place.head)) == place.head else None
    except OSError:
        return None
