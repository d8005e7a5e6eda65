"""One fsync that covers every append before it: group commit, in three steps.

    Log.begin_flush()          on the loop: takes down what has to be synced and how far the log has come
    Flush.run()                in a thread: syncs; it touches nothing but what it was given
    Log.complete_flush(flush)  on the loop: everything below `end_offset` is durable

The order inside `run` is what recovery relies on: when the recovery point has passed a batch, then the batch, the indexes of sealed
segments, the leader epochs up to it and the directory entries of all these files are on the disk. A failed sync is never tried again
(Linux may have marked the pages clean): the caller reports it with `Log.fail_flush`, and the directory goes offline.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from penstock.files import FileHandle, Files


@dataclass(slots=True)
class Flush:
    """What one flush has to sync."""

    files: Files
    end_offset: int
    handles: Sequence[FileHandle]
    replacements: Sequence[tuple[Path, bytes]]
    """Small files to be replaced whole."""
    directories: Sequence[Path]

    def run(self) -> None:
        """Put everything on the disk; OSError if that failed."""
        for handle in self.handles:
            self.files.fsync(handle)
        for path, content in self.replacements:
            self.files.write_atomically(path, content)
        for directory in self.directories:
            self.files.fsync_directory(directory)
