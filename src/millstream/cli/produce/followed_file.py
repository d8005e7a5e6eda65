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
    def identity(self) -> tuple[int, int]:
        """Which file it is: device and inode."""
        found = os.fstat(self.file.fileno())
        return found.st_dev, found.st_ino

    @property
    def place(self) -> FilePlace:
        """Where it is read, to be remembered."""
        return FilePlace(*self.identity, self.position, self.head)

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
        candidates = _rotated_and_present(self.path)
        known = {path: place for path in candidates if (place := _place_in(path, places)) is not None}
        if self.saved and not known:
            self.remarks.append(f"the file that {self.path} was is not there any more: what was not read of it is lost")
        for path, place in known.items():
            self._add(path, place)
        self._open_after(candidates, set(known))
        if self.from_end and not self.saved:
            for one in self._open:
                one.position = os.fstat(one.file.fileno()).st_size

    def lines(self) -> Iterator[bytes]:
        """What has come, a chunk of each file; nothing if there is nothing at the moment."""
        self._notice_rotation()
        for one in list(self._open):
            yield from one.lines()
            is_over = one.rotated_at is not None and self.clock() - one.rotated_at > ROTATED_GRACE_S
            # The newest stays, whatever became of it: what comes after it is known by it, also after a restart.
            if is_over and one.is_at_end() and one is not self._open[-1]:
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
            if current.identity == (found.st_dev, found.st_ino):
                return
            current.rotated_at = self.clock()
        candidates = _rotated_and_present(self.path)
        identities = {one.identity for one in self._open}
        self._open_after(candidates, {path for path in candidates if _identity(path) in identities})

    def _open_after(self, candidates: list[Path], known: set[Path]) -> None:
        """Open what came after the newest file that is known: it has never been seen. Without one only the path itself is asked for."""
        newest = max((index for index, path in enumerate(candidates) if path in known), default=len(candidates) - 2)
        for path in candidates[newest + 1 :]:
            if path != self.path or path.exists():
                self._add(path, None)

    def _add(self, path: Path, place: FilePlace | None) -> None:
        self._open.append(OpenFile.at(path, place))
        if path != self.path:
            self._open[-1].rotated_at = self.clock()


def _rotated_and_present(path: Path) -> list[Path]:
    """Files that the path has been, the oldest first, and then the path itself."""
    try:
        beside = [one for one in path.parent.iterdir() if one.name.startswith(path.name) and one.is_file()]
        rotated = [one for one in beside if _ROTATED_SUFFIX.fullmatch(one.name.removeprefix(path.name))]
        return [*sorted(rotated, key=lambda one: _age(one, path)), path]
    except OSError:  # one was deleted at this moment: it is too late for it
        return [path]


def _age(rotated: Path, path: Path) -> tuple[int, int]:
    """Sorts the oldest first: by the time of the last write, and of the same time name.2 before name.1."""
    suffix = rotated.name.removeprefix(path.name)[1:]
    return rotated.stat().st_mtime_ns, -int(suffix) if suffix.isdigit() and len(suffix) <= 4 else 0


def _identity(path: Path) -> tuple[int, int] | None:
    try:
        found = path.stat()
    except OSError:
        return None
    return found.st_dev, found.st_ino


def _place_in(path: Path, places: dict[tuple[int, int], FilePlace]) -> FilePlace | None:
    """The place in this file, if it is one of those."""
    try:
        with path.open("rb") as file:
            found = os.fstat(file.fileno())
            place = places.get((found.st_dev, found.st_ino))
            return place if place is not None and file.read(len(place.head)) == place.head else None
    except OSError:
        return None
