"""Every file operation of Millstream, in one place, so that a test can make it fail, tear or forget.

`Files` is the real file system. A test double derives from it and overrides what it wants to go wrong: the crash tests record each
operation and then build the disk as a power cut at any moment could have left it (`tests/crash`). So nothing outside this module may call
`os.open`, `open`, `os.rename` and the like on data that has to survive; reading configuration or printing is not meant.

Rules that hold everywhere:
- appends go through `pwritev` at a position that the caller owns (`loop.sendfile` and friends move the file's own position);
- a small file is replaced whole: `write_atomically` writes `<name>.tmp`, syncs, renames, syncs the directory;
- a failed `fsync` is never retried: Linux may have marked the dirty pages clean.
"""

import errno
import fcntl
import os
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NamedTuple

from millstream.buffer import Buffer

OUT_OF_DESCRIPTORS = (errno.EMFILE, errno.ENFILE)
"""Says nothing about the disk: the process, or the system, has too many files and connections open."""

_open_descriptors: set[int] = set()
"""Of all handles: descriptors belong to the process, and threads open and close them too."""


class FileHandle:
    """An open descriptor that closes itself when nothing refers to it any more.

    A file region that waits to be sent holds a reference to its handle, so retention can drop a segment without closing the
    descriptor under the send (the number would be reused, and bytes of another file would go out).
    """

    __slots__ = ("__weakref__", "fd", "path")

    def __init__(self, fd: int, path: Path) -> None:
        self.fd = fd
        self.path = path
        _open_descriptors.add(fd)

    def __del__(self) -> None:
        if self.fd >= 0:
            # In this order: once it is closed another thread may get the same number.
            _open_descriptors.discard(self.fd)
            os.close(self.fd)
            self.fd = -1

    def __repr__(self) -> str:
        return f"FileHandle({self.path.name}, fd={self.fd})"


def path_text(path: Path) -> str:
    """The path as a text that can be stored and sent; bytes that are no UTF-8 are written as `\\xff`."""
    return os.fsencode(path).decode(errors="backslashreplace")


def count_open_handles() -> int:
    """How many files are open."""
    return len(_open_descriptors)


class FileStatus(NamedTuple):
    """What the directory knows about a file."""

    size_bytes: int
    modified_ms: int


class Files:
    """The real file system."""

    close_idle: Callable[[], None] = staticmethod(lambda: None)
    """Closes files that can be opened again; called, in whatever thread it is, when descriptors have run out."""

    first_spare: int = sys.maxsize
    """Descriptors from this number on are for connections to other brokers and for files that are closed soon.

    The system gives the lowest number that is free: who gets one from here on has left only spare ones.
    """

    def open(self, path: Path, *, create: bool = False, read_only: bool = False) -> FileHandle:
        """Open `path` for reading and writing (or only reading), creating it when asked to."""
        flags = os.O_RDONLY if read_only else os.O_RDWR
        if create:
            flags |= os.O_CREAT
        return FileHandle(self._open_descriptor(path, flags), path)

    def open_to_stay(self, path: Path) -> FileHandle:
        """Open `path` for as long as it is written to; EMFILE if only spare descriptors are left for that."""
        handle = self.open(path)
        if handle.fd >= self.first_spare:
            del handle
            self.close_idle()
            handle = self.open(path)
        if handle.fd >= self.first_spare:
            del handle  # here: the traceback of the error would keep it open
            raise OSError(errno.EMFILE, os.strerror(errno.EMFILE))
        return handle

    def _open_descriptor(self, path: Path, flags: int) -> int:
        try:
            return os.open(path, flags | os.O_CLOEXEC, 0o644)
        except OSError as error:
            if error.errno not in OUT_OF_DESCRIPTORS:
                raise
            self.close_idle()
            return os.open(path, flags | os.O_CLOEXEC, 0o644)

    def pwritev(self, handle: FileHandle, buffers: Sequence[Buffer], position: int) -> int:
        """Write the buffers one after the other at `position`; returns how many bytes went in, which may be fewer than given."""
        return os.pwritev(handle.fd, buffers, position)

    def pread(self, handle: FileHandle, length: int, position: int) -> bytes:
        """Read up to `length` bytes at `position`; shorter at the end of the file."""
        return os.pread(handle.fd, length, position)

    def size(self, handle: FileHandle) -> int:
        """Size of the open file in bytes."""
        return os.fstat(handle.fd).st_size

    def status(self, path: Path) -> FileStatus:
        """Size and time of the last change of the file at `path`."""
        status = os.stat(path)
        return FileStatus(status.st_size, status.st_mtime_ns // 1_000_000)

    def free_bytes(self, path: Path) -> int:
        """How much more can be written to the file system that `path` is in."""
        volume = os.statvfs(path)
        return volume.f_bavail * volume.f_frsize

    def set_modified(self, path: Path, modified_ms: int) -> None:
        """Make the file at `path` look as if it had last been changed then."""
        os.utime(path, ns=(modified_ms * 1_000_000, modified_ms * 1_000_000))

    def lock(self, handle: FileHandle) -> bool:
        """Lock the open file for this process until the handle is gone; False if another holder has it."""
        try:
            fcntl.flock(handle.fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        return True

    def truncate(self, handle: FileHandle, size: int) -> None:
        """Cut (or extend with zeros) the file to `size` bytes."""
        os.ftruncate(handle.fd, size)

    def fsync(self, handle: FileHandle) -> None:
        """Put the file's data on the disk. Releases the GIL; call it from a thread when the loop is running."""
        os.fsync(handle.fd)

    def fsync_directory(self, directory: Path) -> None:
        """Put the directory's entries (creations, renames, deletions) on the disk."""
        fd = self._open_descriptor(directory, os.O_RDONLY | os.O_DIRECTORY)
        try:
            os.fsync(fd)
        finally:
            os.close(fd)

    def rename(self, source: Path, target: Path) -> None:
        """Rename, replacing `target` if it exists."""
        os.replace(source, target)

    def unlink(self, path: Path) -> None:
        """Remove a file; one that is already gone is fine."""
        path.unlink(missing_ok=True)

    def make_directory(self, path: Path) -> None:
        """Create a directory and its parents; one that exists is fine."""
        path.mkdir(parents=True, exist_ok=True)

    def remove_directory(self, path: Path) -> None:
        """Remove an empty directory."""
        path.rmdir()

    def list_directory(self, path: Path) -> list[str]:
        """Names in the directory, sorted."""
        return sorted(os.listdir(path))

    def exists(self, path: Path) -> bool:
        """Whether there is something at `path`."""
        return path.exists()

    def read_bytes(self, path: Path) -> bytes:
        """The whole content of a small file."""
        return path.read_bytes()

    def write_atomically(self, path: Path, content: bytes, *, is_name_synced: bool = True) -> None:
        """Replace the file's content so that after a crash it is either the old or the new one, whole.

        Without `is_name_synced` the new one counts when the caller has synced the directory.
        """
        temporary = path.with_name(path.name + ".tmp")
        self.unlink(temporary)
        handle = self.open(temporary, create=True)
        self.write_all(handle, [content], 0)
        self.fsync(handle)
        self.rename(temporary, path)
        if is_name_synced:
            self.fsync_directory(path.parent)

    def write_all(self, handle: FileHandle, buffers: Sequence[Buffer], position: int) -> int:
        """Write all of the buffers at `position`, however many calls it takes; returns the number of bytes written."""
        total = sum(len(buffer) for buffer in buffers)
        written = self.pwritev(handle, buffers, position)
        while written < total:
            rest = memoryview(b"".join(buffers))[written:]
            more = self.pwritev(handle, [rest], position + written)
            if more == 0:
                raise OSError(f"no progress writing {handle.path}")
            written += more
        return total
