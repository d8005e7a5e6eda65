"""A file system whose disk can be made to fail, or to take its time."""

import errno
import threading
from collections.abc import Sequence

from millstream.buffer import Buffer
from millstream.files import FileHandle, Files


class FailingFiles(Files):
    """Writes and syncs fail while their flag is set; syncs wait while `gate` is closed."""

    def __init__(self) -> None:
        self.is_write_failing = False
        self.is_sync_failing = False
        self.syncs = 0
        self.gate = threading.Event()
        self.gate.set()

    def pwritev(self, handle: FileHandle, buffers: Sequence[Buffer], position: int) -> int:
        if self.is_write_failing:
            raise OSError(errno.ENOSPC, "no space left on device")
        return super().pwritev(handle, buffers, position)

    def fsync(self, handle: FileHandle) -> None:
        self.gate.wait(20)
        self.syncs += 1
        if self.is_sync_failing:
            raise OSError(errno.EIO, "input/output error")
        super().fsync(handle)
