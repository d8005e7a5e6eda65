"""A file system that remembers every operation, and can show the disk as a power cut at any moment could have left it.

`ForgetfulFiles` does what it is asked, in a real directory, and takes it down. From the operations up to a moment, `disk_after` builds
what is on the disk then: what was synced is there; of what was not, a `Fate` says what became of it.

    names   creations, renames and deletions are kept in order (a journal keeps them so): all that were made, or only those whose directory
            was synced afterwards
    data    writes and cuts of one file: all, none, all but the last, the last one torn in half, the last one only (disks reorder), or only
            the size of it all with zeros inside (delayed allocation)

`stop_at` makes the k-th operation fail by `Stopped`, as if the process had died there.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import Enum
from itertools import count
from pathlib import Path
from weakref import WeakKeyDictionary

from millstream.buffer import Buffer
from millstream.files import FileHandle, Files


class Fate(Enum):
    """What becomes of unsynced operations: of names (kept or not), of data."""

    ALL_LOST = (False, "none")
    ALL_KEPT = (True, "all")
    DATA_LOST = (True, "none")
    NAMES_LOST = (False, "all")
    TORN = (True, "torn")
    REORDERED = (True, "last")
    ZEROS = (True, "zeros")
    LAST_LOST = (True, "but last")


class Stopped(BaseException):
    """The process died here. Not an Exception: nothing may handle it."""


@dataclass(frozen=True, slots=True)
class Operation:
    """One thing that was done. `kind` is one of create, write, cut, rename, unlink, mkdir, rmdir, sync, sync_directory."""

    kind: str
    path: Path
    inode: int = -1
    position: int = 0
    data: bytes = b""
    target: Path | None = None


@dataclass(slots=True)
class Recording:
    """The operations of one life, on top of the disk as it was before."""

    before: dict[Path, bytes] = field(default_factory=dict)
    directories: set[Path] = field(default_factory=set)
    operations: list[Operation] = field(default_factory=list)


class ForgetfulFiles(Files):
    """The real file system, taking notes; fails at operation `stop_at` if that is given."""

    def __init__(self, root: Path, *, stop_at: int | None = None) -> None:
        self._stop_at = stop_at
        self._counter = count()
        self._inodes: dict[Path, int] = {}
        self._opened: WeakKeyDictionary[FileHandle, int] = WeakKeyDictionary()
        self.recording = Recording()
        for path in sorted(root.rglob("*")):
            if path.is_dir():
                self.recording.directories.add(path)
            else:
                self._inodes[path] = next(self._counter)
                self.recording.before[path] = path.read_bytes()

    def open(self, path: Path, *, create: bool = False, read_only: bool = False) -> FileHandle:
        if create and path not in self._inodes:
            inode = next(self._counter)
            self._note(Operation("create", path, inode))
            self._inodes[path] = inode
        handle = super().open(path, create=create, read_only=read_only)
        self._opened[handle] = self._inodes[path]
        return handle

    def pwritev(self, handle: FileHandle, buffers: Sequence[Buffer], position: int) -> int:
        self._note(Operation("write", handle.path, self._opened[handle], position, b"".join(buffers)))
        return super().pwritev(handle, buffers, position)

    def truncate(self, handle: FileHandle, size: int) -> None:
        if size != self.size(handle):
            self._note(Operation("cut", handle.path, self._opened[handle], size))
        super().truncate(handle, size)

    def fsync(self, handle: FileHandle) -> None:
        self._note(Operation("sync", handle.path, self._opened[handle]))

    def fsync_directory(self, directory: Path) -> None:
        self._note(Operation("sync_directory", directory))

    def rename(self, source: Path, target: Path) -> None:
        self._note(Operation("rename", source, target=target))
        super().rename(source, target)
        for path in [path for path in self._inodes if path == source or path.is_relative_to(source)]:
            self._inodes[target / path.relative_to(source)] = self._inodes.pop(path)

    def unlink(self, path: Path) -> None:
        if path in self._inodes:
            self._note(Operation("unlink", path))
            del self._inodes[path]
        super().unlink(path)

    def make_directory(self, path: Path) -> None:
        if not path.exists():
            self._note(Operation("mkdir", path))
        super().make_directory(path)

    def remove_directory(self, path: Path) -> None:
        self._note(Operation("rmdir", path))
        super().remove_directory(path)

    def _note(self, operation: Operation) -> None:
        if self._stop_at is not None and len(self.recording.operations) >= self._stop_at:
            raise Stopped
        self.recording.operations.append(operation)


class _Disk:
    """The disk while operations are applied to it."""

    def __init__(self, recording: Recording) -> None:
        self.names = {path: number for number, path in enumerate(recording.before)}
        self.content = {number: bytearray(data) for number, data in enumerate(recording.before.values())}
        self.directories = set(recording.directories)

    def apply_name(self, operation: Operation) -> None:
        path = operation.path
        match operation.kind:
            case "create":
                self.names[path] = operation.inode
            case "unlink":
                self.names.pop(path, None)
            case "mkdir":
                self.directories.add(path)
            case "rmdir":
                self.directories.discard(path)
            case "rename":
                assert operation.target is not None
                for name in [name for name in self.names if name == path or name.is_relative_to(path)]:
                    self.names[operation.target / name.relative_to(path)] = self.names.pop(name)
                if path in self.directories:
                    self.directories.discard(path)
                    self.directories.add(operation.target)

    def apply_data(self, operation: Operation, *, data: bytes | None = None) -> None:
        content = self.content.setdefault(operation.inode, bytearray())
        if operation.kind == "cut":
            del content[operation.position :]
            content.extend(bytes(operation.position - len(content)))
            return
        written = operation.data if data is None else data
        content.extend(bytes(max(0, operation.position - len(content))))
        content[operation.position : operation.position + len(written)] = written


def disk_after(recording: Recording, moment: int, fate: Fate) -> dict[Path, bytes | None]:
    """Path and content of each file (None: a directory) after the first `moment` operations and a power cut."""
    done = recording.operations[:moment]
    keeps_names, data_fate = fate.value
    disk = _Disk(recording)
    synced_names = {operation.path: number for number, operation in enumerate(done) if operation.kind == "sync_directory"}
    synced_data = {operation.inode: number for number, operation in enumerate(done) if operation.kind == "sync"}
    unsynced: dict[int, list[Operation]] = {}
    for number, operation in enumerate(done):
        if operation.kind in ("write", "cut"):
            if number < synced_data.get(operation.inode, -1):
                disk.apply_data(operation)
            else:
                unsynced.setdefault(operation.inode, []).append(operation)
        elif keeps_names or number < synced_names.get(operation.path.parent, -1):
            disk.apply_name(operation)
    for operations in unsynced.values():
        _apply_unsynced(disk, operations, data_fate)
    found: dict[Path, bytes | None] = dict.fromkeys(sorted(disk.directories))
    for path, inode in disk.names.items():
        if path.parent in disk.directories or not any(path.is_relative_to(one) for one in recording_directories(recording)):
            found[path] = bytes(disk.content.get(inode, b""))
    return found


def recording_directories(recording: Recording) -> set[Path]:
    """Every directory that was there or was made."""
    return recording.directories | {operation.path for operation in recording.operations if operation.kind == "mkdir"}


def materialise(found: dict[Path, bytes | None], *, root: Path, target: Path) -> None:
    """Write the disk below `root` to another directory."""
    target.mkdir(parents=True, exist_ok=True)
    for path, content in found.items():
        moved = target / path.relative_to(root)
        if content is None:
            moved.mkdir(parents=True, exist_ok=True)
        else:
            moved.parent.mkdir(parents=True, exist_ok=True)
            moved.write_bytes(content)


def _apply_unsynced(disk: _Disk, operations: list[Operation], data_fate: str) -> None:
    if data_fate == "none":
        return
    if data_fate == "but last":
        for operation in operations[:-1]:
            disk.apply_data(operation)
        return
    if data_fate == "last":
        operations = operations[-1:]
    for operation in operations[:-1]:
        disk.apply_data(operation, data=bytes(len(operation.data)) if data_fate == "zeros" else None)
    last = operations[-1]
    if data_fate == "torn":
        disk.apply_data(last, data=last.data[: len(last.data) // 2])
    else:
        disk.apply_data(last, data=bytes(len(last.data)) if data_fate == "zeros" else None)
