"""Entries of one size, appended in order, in a file of their own: what the offset index, the time index and the index of aborted
transactions share.

Entries that were added lie in memory until they fill a block, then they are written; `write_out` writes what is left, at a flush of a
sealed segment and at close. The file is opened for that, and closed again: a block stands for about 2 MiB of log. A search that needs
another block leaves it open for the next one, until `close_file`. So an index costs a block or two of memory, and a descriptor only while
it is searched. Kafka maps a preallocated 10 MiB file instead and cuts it at the end; the bytes of a closed index are the same.

A lookup finds the block by the first key of each, and then the entry in it. The last block read is kept, which is where a reader that goes
forward finds its next entry, and so are the first keys that were looked at: readers that jump about read one block per lookup.

Not done here: syncing (`Flush` does it) and deciding whether entries are right (`recovery` does). After a crash the index of a segment that
may hold unsynced data is never trusted but rebuilt.
"""

from bisect import bisect_right
from collections.abc import Iterator
from pathlib import Path
from struct import Struct

from millstream.buffer import Buffer
from millstream.files import OUT_OF_DESCRIPTORS, FileHandle, Files

BLOCK_BYTES = 4096


class SparseIndex:
    """An append-only file of fixed-size entries, one field of which, the key, grows from entry to entry."""

    __slots__ = (
        "_block",
        "_block_start",
        "_entry",
        "_files",
        "_first_keys",
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
        self._first_keys: dict[int, int] = {}
        """Of the written blocks, by their numbers, as far as they were looked at."""
        self.path = path
        self.last_key = self._key_at(written - 1) if written else -1

    def __len__(self) -> int:
        return self._written + len(self._pending) // self._entry.size

    @property
    def size_bytes(self) -> int:
        """Size of all entries, written or not."""
        return self._written * self._entry.size + len(self._pending)

    @property
    def is_written(self) -> bool:
        """Whether the file is there and holds all entries."""
        return not (self._pending or self._is_stale)

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

    def is_at_hand(self, number: int) -> bool:
        """Whether there is an entry of this number, and no file has to be read for it."""
        start = self._written if number >= self._written else self._block_start
        entries = self._pending if number >= self._written else self._block
        return start <= number < start + len(entries) // self._entry.size

    def entries_from(self, number: int) -> Iterator[tuple[int, ...]]:
        """The entries from `number` on, block by block: where thousands are looked at."""
        size = self._entry.size
        while number < self._written:
            self._load_block_of(number)
            block, start = self._block, self._block_start
            yield from self._entry.iter_unpack(memoryview(block)[(number - start) * size :])
            number = start + len(block) // size
        yield from self._entry.iter_unpack(bytes(self._pending[(number - self._written) * size :]))

    def last_at_or_below(self, key: int) -> int:
        """Number of the last entry whose key is not above `key`; -1 if there is none."""
        pending, written = self._pending, self._written
        if pending and self._entry.unpack_from(pending)[self._key_field] <= key:
            return written + self._count_at_or_below(pending, key) - 1
        block = self._block
        if not block or not self._is_between(block, key):
            per_block = BLOCK_BYTES // self._entry.size
            number = bisect_right(range(-(-written // per_block)), key, key=self._first_key_of) - 1
            if number < 0:
                return -1
            self._load_block_of(number * per_block)
        return self._block_start + self._count_at_or_below(self._block, key) - 1

    def truncate(self, count: int) -> None:
        """Keep only the first `count` entries."""
        if count >= self._written:
            del self._pending[(count - self._written) * self._entry.size :]
        else:
            self._pending.clear()
            self._written = count
            self._files.truncate(self.handle(), count * self._entry.size)
        self._block = b""
        self._first_keys.clear()
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
            self._block = b""  # it may have been the last one, and not full
        return handle

    def handle(self) -> FileHandle:
        """The file, opened for the caller, and created when there is none."""
        handle = self._handle or self._files.open(self.path, create=True)
        if self._is_stale:
            self._files.truncate(handle, 0)
            self._is_stale = False
        return handle

    def take_entries_of(self, other: "SparseIndex") -> None:
        """Begin with the entries that another index has, written or not; for a new one, over a file that is not there yet."""
        written = other._written * self._entry.size
        self._pending = bytearray(self._files.pread(other.handle(), written, 0) if written else b"") + other._pending
        self.last_key = other.last_key

    def close_file(self) -> None:
        """Close the file until the next search. May be called in any thread."""
        self._handle = None

    def release(self) -> None:
        """Let go of the file and of what was read of it; both come back when needed."""
        self._handle = None
        self._block = b""
        self._first_keys.clear()

    def _load_block_of(self, number: int) -> None:
        size = self._entry.size
        if self._block and self._block_start <= number < self._block_start + len(self._block) // size:
            return
        per_block = BLOCK_BYTES // size
        self._block_start = number // per_block * per_block
        count = min(per_block, self._written - self._block_start)
        self._block = b""
        self._block = self._read(self._block_start, count)

    def _read(self, number: int, count: int) -> bytes:
        """So many written entries from `number` on."""
        size = self._entry.size
        handle = self._handle = self.handle()
        found = self._files.pread(handle, count * size, number * size)
        if len(found) != count * size:
            raise OSError(f"{self.path} ended before entry {number + count - 1}")
        return found

    def _is_between(self, block: bytes, key: int) -> bool:
        """Whether the key is neither before the first entry of a block nor behind its last."""
        unpack_from, key_field = self._entry.unpack_from, self._key_field
        return bool(unpack_from(block)[key_field] <= key <= unpack_from(block, len(block) - self._entry.size)[key_field])

    def _first_key_of(self, block_number: int) -> int:
        key = self._first_keys.get(block_number)
        if key is None:
            found = self._read(block_number * (BLOCK_BYTES // self._entry.size), 1)
            key = self._first_keys[block_number] = self._entry.unpack(found)[self._key_field]
        return key

    def _count_at_or_below(self, entries: Buffer, key: int) -> int:
        """How many of the entries have a key that is not above `key`. Written out: `bisect` would call back for each of its steps."""
        unpack_from, size, key_field = self._entry.unpack_from, self._entry.size, self._key_field
        low, high = 0, len(entries) // size
        while low < high:
            middle = (low + high) >> 1
            if unpack_from(entries, middle * size)[key_field] <= key:
                low = middle + 1
            else:
                high = middle
        return low

    def _key_at(self, number: int) -> int:
        return self.entry(number)[self._key_field]


def whole_entries(files: Files, path: Path, *, entry: Struct) -> int:
    """How many entries the file holds; 0 when there is none, -1 when its size is not a whole number of entries."""
    try:
        size = files.status(path).size_bytes
    except FileNotFoundError:
        return 0
    return size // entry.size if size % entry.size == 0 else -1
