"""One fsync that covers every append before it: group commit, in three steps.

    Log.begin_flush()          on the loop: collects what has to be synced and notes how far the log has come
    Flush.run()                in a thread: syncs; it touches nothing but what it was given
    Log.complete_flush(flush)  on the loop: everything below `end_offset` is durable

The order inside `run` is what recovery relies on: when the recovery point has passed a batch, then the batch, the indexes of sealed
segments, the leader epochs up to it and the directory entries of all these files are on the disk. A failed sync is never tried again
(Linux may have marked the pages clean): the caller reports it with `Log.fail_flush`, and the directory goes offline. For want of
descriptors it stays online, and the next flush syncs all that this one had collected.
"""

import errno
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from threading import Lock

from millstream.files import FileHandle, Files


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
                except BaseException as error:
                    # Whatever it is: what was not synced must not pass for durable when it is asked for again, at the close.
                    self._error = error if isinstance(error, OSError) else OSError(errno.EIO, f"{type(error).__name__}: {error}")
                    if not isinstance(error, Exception):
                        raise
        if self._error is not None:
            raise self._error

    def _sync(self) -> None:
        for handle in self.handles:
            self.files.fsync(handle)
        for path, content in self.replacements:
            self.files.write_atomically(path, content, is_name_synced=path.parent not in self.directories)
        for directory in self.directories:
            self.files.fsync_directory(directory)
