"""The journal of the tree: every transaction is in it before it is answered or seen.

A directory of the embedded tree holds

    snapshot.<zxid>     the whole tree after that transaction (see `snapshot`)
    journal.<zxid>      the transactions that follow it: "MLSTJRNL", then per transaction
                        length uint32 | CRC-32 uint32 | payload (see `change`)

with zxids as 16 hex digits. `append` writes into the page cache, which survives the death of the process; what must survive a power cut
as well waits for a `Flush`: `begin_flush` on the loop, `run` in a thread, `complete_flush` on the loop again, one flush for everything
appended before it (group commit). After `_SNAPSHOT_AFTER_BYTES` a new journal begins and the tree is written as a snapshot; what came
before it is removed once the snapshot is on the disk.

Recovery takes the newest snapshot and replays what follows it. Each record names its predecessor, so the replay ends at the first record
that is torn, wrong or does not follow, and everything behind that point is cut off: it was never acknowledged, because a flush syncs older
journals first. A disk that forgets a byte looks the same as a power cut between two pages; so where whole transactions lie behind the
point, a copy of the file is kept as `journal.<zxid>.damaged-<number>`, as are the journals that follow, and an error says so. A snapshot
that cannot be read stops the start instead: a broker that came up without its topics would be worse. A write or sync that failed is never
tried again; the keeper of the tree goes offline.
"""

import logging
import struct
import zlib
from itertools import count
from pathlib import Path
from typing import NamedTuple

from millstream.errors import StartupError
from millstream.files import OUT_OF_DESCRIPTORS, FileHandle, Files
from millstream.zookeeper.change import Transaction, decode_transaction, encode_transaction
from millstream.zookeeper.errors import MarshallingError
from millstream.zookeeper.snapshot import decode_snapshot, encode_snapshot
from millstream.zookeeper.tree import Tree

_log = logging.getLogger(__name__)

_MAGIC = b"MLSTJRNL"
_FRAME = struct.Struct(">II")
_SNAPSHOT_AFTER_BYTES = 2 * 1024 * 1024


class Flush(NamedTuple):
    """What has to reach the disk for everything up to `position` to be durable. `run` may block; call it in a thread."""

    files: Files
    handles: tuple[FileHandle, ...]
    directory: Path | None
    position: int

    def run(self) -> None:
        """Sync, older journals first; raises OSError."""
        for handle in self.handles:
            self.files.fsync(handle)
        if self.directory is not None:
            self.files.fsync_directory(self.directory)


class SnapshotWrite(NamedTuple):
    """A snapshot to be put on the disk, and the files it makes superfluous. `run` may block; call it in a thread."""

    files: Files
    path: Path
    content: bytes
    superfluous: tuple[Path, ...]

    def run(self) -> None:
        """Write, then remove; raises OSError."""
        self.files.write_atomically(self.path, self.content)
        for path in self.superfluous:
            self.files.unlink(path)


class Journal:
    """The open journal. `position` counts the bytes appended since the start, `durable_position` those that are on the disk."""

    def __init__(self, directory: Path, *, files: Files) -> None:
        self._directory = directory
        self._files = files
        self._handle: FileHandle | None = None
        self._end = 0
        self._unsynced_older: list[FileHandle] = []
        self._is_directory_unsynced = False
        self._snapshot_bytes = 0
        self._is_snapshot_under_way = False
        self.position = 0
        self.durable_position = 0

    def recover(self) -> Tree:
        """Read what is there, cut what is torn, and be ready to append."""
        self._files.make_directory(self._directory)
        for name in self._files.list_directory(self._directory):
            if name.endswith(".tmp"):
                self._files.unlink(self._directory / name)
        tree = self._read_snapshot()
        journals = self._names("journal.")
        for index, name in enumerate(journals):
            handle = self._files.open(self._directory / name)
            is_whole = self._replay(handle, tree)
            # The last life may have ended before it synced this one or its name; what is written from now on rests on it.
            if self._handle is not None:
                self._unsynced_older.append(self._handle)
            self._is_directory_unsynced = True
            self._handle = handle
            if not is_whole:
                self._drop(journals[index + 1 :])
                break
        if self._handle is None or self._end < len(_MAGIC):
            self._start_file(tree.last_zxid)
        return tree

    def append(self, transaction: Transaction) -> None:
        """Write a transaction; raises OSError."""
        assert self._handle is not None
        payload = encode_transaction(transaction)
        frame = _FRAME.pack(len(payload), zlib.crc32(payload)) + payload
        self._files.write_all(self._handle, [frame], self._end)
        self._end += len(frame)
        self.position += len(frame)

    def begin_flush(self) -> Flush | None:
        """What to sync, or None when everything is on the disk."""
        if self.durable_position == self.position and not self._is_directory_unsynced:
            return None
        assert self._handle is not None
        handles = (*self._unsynced_older, self._handle)
        directory = self._directory if self._is_directory_unsynced else None
        self._unsynced_older = []
        self._is_directory_unsynced = False
        return Flush(self._files, handles, directory, self.position)

    def complete_flush(self, flush: Flush) -> None:
        """The flush succeeded."""
        self.durable_position = max(self.durable_position, flush.position)

    def begin_snapshot(self, tree: Tree) -> SnapshotWrite | None:
        """Begin a new journal and hand out the snapshot to be written, if the present one has grown long enough."""
        if self._is_snapshot_under_way or self._end < max(_SNAPSHOT_AFTER_BYTES, self._snapshot_bytes):
            return None
        assert self._handle is not None
        older = self._handle
        try:
            superfluous = tuple(self._directory / name for name in (*self._names("snapshot."), *self._names("journal.")))
            self._start_file(tree.last_zxid)
        except OSError as error:
            if error.errno not in OUT_OF_DESCRIPTORS:
                raise
            return None  # This one grows a little longer.
        self._unsynced_older.append(older)
        content = encode_snapshot(tree)
        self._is_snapshot_under_way = True
        self._snapshot_bytes = len(content)
        return SnapshotWrite(self._files, self._directory / f"snapshot.{tree.last_zxid:016x}", content, superfluous)

    def complete_snapshot(self) -> None:
        """The snapshot is on the disk."""
        self._is_snapshot_under_way = False

    def close(self) -> None:
        """Let go of the file; a flush comes before, if the last transactions matter."""
        self._handle = None
        self._unsynced_older = []

    def _names(self, prefix: str) -> list[str]:
        return [name for name in self._files.list_directory(self._directory) if name.startswith(prefix) and len(name) == len(prefix) + 16]

    def _read_snapshot(self) -> Tree:
        names = self._names("snapshot.")
        if not names:
            return Tree()
        path = self._directory / names[-1]
        content = self._files.read_bytes(path)
        try:
            tree = decode_snapshot(content)
        except MarshallingError as error:
            raise StartupError(
                f"the coordination snapshot {path} is damaged ({error}); restore it from a backup, or remove the directory to start empty"
            ) from error
        self._snapshot_bytes = len(content)
        return tree

    def _replay(self, handle: FileHandle, tree: Tree) -> bool:
        """Apply the transactions of one file and cut it behind the last good one; whether there was nothing to cut."""
        content = self._files.pread(handle, self._files.size(handle), 0)
        end = _replay_bytes(content, tree)
        self._end = end
        if end == len(content):
            return True
        self._keep_if_damaged(handle.path, content, end)
        _log.warning(
            "coordination journal %s: %d bytes behind byte %d were not whole and are cut off", handle.path, len(content) - end, end
        )
        self._files.truncate(handle, end)
        self._files.fsync(handle)
        return False

    def _keep_if_damaged(self, path: Path, content: bytes, end: int) -> None:
        """Keep a copy of a journal that goes on behind the place where it is to be cut."""
        if _has_transaction(content, end):
            copy = self._damaged_path(path.name)
            self._files.write_atomically(copy, content)
            _log.error(
                "coordination journal %s is damaged at byte %d and transactions behind it are not taken: either the machine lost power "
                "before they were acknowledged, or the disk is failing and topics may be missing; all of it is kept as %s",
                path,
                end,
                copy.name,
            )

    def _damaged_path(self, name: str) -> Path:
        """A name to keep a journal under: a disk that fails does it more than once."""
        taken = set(self._files.list_directory(self._directory))
        return self._directory / next(kept for number in count(1) if (kept := f"{name}.damaged-{number}") not in taken)

    def _drop(self, names: list[str]) -> None:
        for name in names:
            kept = self._damaged_path(name)
            _log.error("coordination journal %s follows one that was cut and is kept as %s", self._directory / name, kept.name)
            self._files.rename(self._directory / name, kept)
        if names:
            self._files.fsync_directory(self._directory)

    def _start_file(self, zxid: int) -> None:
        self._handle = self._files.open(self._directory / f"journal.{zxid:016x}", create=True)
        self._files.truncate(self._handle, 0)
        self._files.write_all(self._handle, [_MAGIC], 0)
        self._end = len(_MAGIC)
        self._is_directory_unsynced = True


def _replay_bytes(content: bytes, tree: Tree) -> int:
    """Apply what follows the tree's last transaction; returns the end of the last good record."""
    if content[: len(_MAGIC)] != _MAGIC:
        return 0
    position = len(_MAGIC)
    while (payload := _payload_at(content, position)) is not None:
        try:
            transaction = decode_transaction(payload)
        except MarshallingError:
            break
        if transaction.zxid > tree.last_zxid:
            if transaction.previous_zxid != tree.last_zxid:
                break
            tree.replay(transaction)
        position += _FRAME.size + len(payload)
    return position


def _has_transaction(content: bytes, start: int) -> bool:
    """Whether a whole transaction begins anywhere from `start` on, where the replay ended."""
    return any(_payload_at(content, position) is not None for position in range(start, len(content)))


def _payload_at(content: bytes, position: int) -> bytes | None:
    """The payload of the record that begins at `position`; None if it is torn or wrong."""
    start = position + _FRAME.size
    if start > len(content):
        return None
    length, crc = _FRAME.unpack_from(content, position)
    if not 0 < length <= len(content) - start:
        return None
    payload = content[start : start + length]
    return payload if zlib.crc32(payload) == crc else None
