"""A file system that remembers what a power cut could leave of it.

Every operation is done for real and noted; after each one the disk is recorded as a crash at that moment could have left it: everything
kept (the process died, the machine lives), only what was synced (names and bytes, or bytes alone), and the last write torn in the middle.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from millstream.buffer import Buffer
from millstream.files import FileHandle, Files


class CrashState(NamedTuple):
    """The files of a directory after a crash, and how much had been acknowledged before it."""

    files: dict[str, bytes]
    acknowledged: int

    def write_to(self, directory: Path) -> None:
        directory.mkdir(parents=True)
        for name, content in self.files.items():
            (directory / name).write_bytes(content)


class _File:
    def __init__(self) -> None:
        self.content = b""
        self.synced = b""


class CrashingFiles(Files):
    """The real file system, with a record of crash states; a test sets `acknowledged` as it goes."""

    def __init__(self) -> None:
        self.acknowledged = 0
        self.states: list[CrashState] = []
        self._names: dict[str, _File] = {}
        self._synced_names: dict[str, _File] = {}
        self._open: dict[int, _File] = {}

    def open(self, path: Path, *, create: bool = False, read_only: bool = False) -> FileHandle:
        handle = super().open(path, create=create, read_only=read_only)
        self._open[id(handle)] = self._names.setdefault(path.name, _File())
        self._record()
        return handle

    def pwritev(self, handle: FileHandle, buffers: Sequence[Buffer], position: int) -> int:
        written = super().pwritev(handle, buffers, position)
        file, data = self._open[id(handle)], b"".join(buffers)
        before = file.content[:position]
        for kept in {0, 1, len(data) // 2, len(data) - 1}:
            file.content = before + data[:kept]
            self._record()
        file.content = before + bytes(len(data))
        self._record()
        file.content = before + data
        self._record()
        return written

    def truncate(self, handle: FileHandle, size: int) -> None:
        super().truncate(handle, size)
        file = self._open[id(handle)]
        file.content = file.content[:size]
        self._record()

    def fsync(self, handle: FileHandle) -> None:
        super().fsync(handle)
        file = self._open[id(handle)]
        file.synced = file.content
        self._record()

    def fsync_directory(self, directory: Path) -> None:
        super().fsync_directory(directory)
        self._synced_names = dict(self._names)
        self._record()

    def rename(self, source: Path, target: Path) -> None:
        super().rename(source, target)
        self._names[target.name] = self._names.pop(source.name)
        self._record()

    def unlink(self, path: Path) -> None:
        super().unlink(path)
        self._names.pop(path.name, None)
        self._record()

    def _record(self) -> None:
        for state in (
            {name: file.content for name, file in self._names.items()},
            {name: file.synced for name, file in self._names.items()},
            {name: file.synced for name, file in self._synced_names.items()},
        ):
            if not self.states or self.states[-1] != (state, self.acknowledged):
                self.states.append(CrashState(state, self.acknowledged))
