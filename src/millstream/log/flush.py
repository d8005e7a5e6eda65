"""One fsync that covers every append before it: group commit, in three steps.

    Log.begin_flush()          on the loop: takes down what has to be synced and how far the log has come
    Flush.run()                in a thread: syncs; it touches nothing but what it was given
    Log.complete_flush(flush)  on the loop: everything below `end_offset` is durable

The order inside `run` is what recovery relies on: when the recovery point has passed a batch, then the batch, the indexes of sealed
segments, the leader epochs up to it and the directory entries of all these files are on the disk. A failed sync is never tried again
(Linux may have marked the pages clean): the caller reports it with `Log.fail_flush`, and the directory goes offline. For want of
descriptors it stays online, and the next flush syncs all that this one had taken down.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from threading import Lock

from millstream.files import FileHandle, Files


class Unsynced:
    """Small files and directories that were changed since the last flush."""

    __slots__ = ("directories", "paths")

    def __init__(self) -> None:
        self.directories: set[Path] = set()
        self.paths: set[Path] = set()

    def note(self, path: Path, *directories: Path) -> None:
        """A file was written, and entries of these directories are new."""
        self.paths.add(path)
        self.directories.update(directories)

    def open_paths(self, files: Files) -> list[FileHandle]:
        """The files to sync, opened; some may be gone again. If that fails, nothing is forgotten."""
        return [files.open(path) for path in sorted(self.paths) if files.exists(path)]

    def take(self) -> tuple[list[Path], list[Path]]:
        """The files, and the directories from the inside out: from now on somebody else takes care of them."""
        paths, self.paths = self.paths, set()
        directories, self.directories = self.directories, set()
        return list(paths), sorted(directories, reverse=True)


@dataclass(slots=True)
class Flush:
    """What one flush has to sync."""

    files: Files
    end_offset: int
    handles: Sequence[FileHandle]
    replacements: Sequence[tuple[Path, bytes]]
    """Small files to be replaced whole."""
    directories: Sequence[Path]
    paths: Sequence[Path] = ()
    """The small files among the handles."""
    _running: Lock = field(default_factory=Lock)
    _is_done: bool = False
    _error: OSError | None = None

    def run(self) -> None:
        """Put everything on the disk; OSError if that failed. Once: whoever calls it again waits, and gets the same answer."""
        with self._running:
            if not self._is_done:
                self._is_done = True
                try:
                    self._sync()
                except OSError as error:
                    self._error = error
        if self._error is not None:
            raise self._error

    def _sync(self) -> None:
        for handle in self.handles:
            self.files.fsync(handle)
        for path, content in self.replacements:
            self.files.write_atomically(path, content)
        for directory in self.directories:
            self.files.fsync_directory(directory)
