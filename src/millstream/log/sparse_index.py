"""Entries of one size, appended in order, in a file of their own: what the offset index, the time index and the index of aborted
transactions share.

Entries that were added lie in memory until they fill a block, then they are written; `write_out` writes what is left, at a flush of a
sealed segment and at close. The file is opened for that, and closed again: a block stands for about 2 MiB of log. A search that needs
another block leaves it open for the next one, until `close_file`. So an index costs a block or two of memory, and a descriptor only while
it is searched. Kafka maps a preallocated 10 MiB file instead and cuts it at the end; the bytes of a closed index are the same.

Lookups are binary searches over blocks; the last block read is kept, which is where a reader that goes forward finds its next entry.

Not done here: syncing (`Flush` does it) and deciding whether entries are right (`recovery` does). After a crash the index of a segment that
may hold unsynced data is never trusted but rebuilt.
"""

from bisect import bisect_right
from pathlib import Path
from struct import Struct

from millstream.files import OUT_OF_DESCRIPTORS, FileHandle, Files

BLOCK_BYTES = 4096


class SparseIndex:
    """An append-only file of fixed-size entries, one field of which, the key, grows from entry to entry."""

    __slots__ = (
        "_block",
        "_block_start",
        "_entry",
        "_files",
        "_handle",
        "_is_stale",
        "_key_field",
        "_pending",
        "_written",
        "last_key",
        "path",
    )

    def __init__(self, files: Files, path: Path, *, entry: Struct, key_field: int = 0, written: int) -> None:
        self._files = files
        self._entry = entry
        self._key_field = key_field
        self._handle: FileHandle | None = None
        """The file, where a search left it open."""
        self._written = written
        self._is_stale = written == 0
        """Whatever the file may hold is not ours; it is emptied when we first write."""
        self._pending = bytearray()
        self._block = b""
        self._block_start = 0
        self.path = path
        self.last_key = self._key_at(written - 1) if written else -1

    def __len__(self) -> int:
        return self._written + len(self._pending) // self._entry.size

    @property
    def size_bytes(self) -> int:
        """Size of all entries, written or not."""
        return self._written * self._entry.size + len(self._pending)

    def add(self, *fields: int) -> None:
        """Append one entry; the key is larger than the last one's."""
        pending = self._pending
        pending += self._entry.pack(*fields)
        self.last_key = fields[self._key_field]
        if len(pending) >= BLOCK_BYTES:
            try:
                self.write_out()
            except OSError as error:
                # Without a descriptor they stay in memory a little longer.
                if error.errno not in OUT_OF_DESCRIPTORS:
                    raise

    def entry(self, number: int) -> tuple[int, ...]:
        """The entry at `number`."""
        size = self._entry.size
        if number >= self._written:
            return self._entry.unpack_from(self._pending, (number - self._written) * size)
        self._load_block_of(number)
        return self._entry.unpack_from(self._block, (number - self._block_start) * size)

    def last_at_or_below(self, key: int) -> int:
        """Number of the last entry whose key is not above `key`; -1 if there is none."""
        total = len(self)
        low, high = 0, total
        if self._written < total and key >= self._key_at(self._written):
            low = self._written
        elif self._block:
            block_end = self._block_start + len(self._block) // self._entry.size
            if self._key_at(self._block_start) <= key <= self._key_at(block_end - 1):
                low, high = self._block_start, block_end
        return bisect_right(range(total), key, lo=low, hi=high, key=self._key_at) - 1

    def truncate(self, count: int) -> None:
        """Keep only the first `count` entries."""
        if count >= self._written:
            del self._pending[(count - self._written) * self._entry.size :]
        else:
            self._pending.clear()
            self._written = count
            self._files.truncate(self.handle(), count * self._entry.size)
        self._block = b""
        self.last_key = self._key_at(count - 1) if count else -1

    def write_out(self) -> None:
        """Write the entries that are only in memory."""
        if self._pending:
            self.complete()

    def complete(self) -> FileHandle:
        """Write the entries that are only in memory; the file, which is there from now on, if only as an empty one."""
        handle = self.handle()
        if self._pending:
            self._files.write_all(handle, [bytes(self._pending)], self._written * self._entry.size)
            self._written += len(self._pending) // self._entry.size
            self._pending.clear()
        return handle

    def handle(self) -> FileHandle:
        """The file, opened for the caller, and created when there is none."""
        handle = self._handle or self._files.open(self.path, create=True)
        if self._is_stale:
            self._files.truncate(handle, 0)
            self._is_stale = False
        return handle

    def close_file(self) -> None:
        """Close the file until the next search. May be called in any thread."""
        self._handle = None

    def release(self) -> None:
        """Let go of the file and the cached block; both come back when needed."""
        self._handle = None
        self._block = b""

    def _load_block_of(self, number: int) -> None:
        size = self._entry.size
        if self._block and self._block_start <= number < self._block_start + len(self._block) // size:
            return
        per_block = BLOCK_BYTES // size
        self._block_start = number // per_block * per_block
        count = min(per_block, self._written - self._block_start)
        handle = self._handle = self.handle()
        self._block = self._files.pread(handle, count * size, self._block_start * size)
        if len(self._block) != count * size:
            self._block = b""
            raise OSError(f"{self.path} ended before entry {number}")

    def _key_at(self, number: int) -> int:
        return self.entry(number)[self._key_field]


def whole_entries(files: Files, path: Path, *, entry: Struct) -> int:
    """How many entries the file holds; 0 when there is none, -1 when its size is not a whole number of entries."""
    try:
        size = files.status(path).size_bytes
    except FileNotFoundError:
        return 0
    return size // entry.size if size % entry.size == 0 else -1
