"""A disk that takes as long as a test wants."""

import threading

from millstream.files import FileHandle, Files


class SlowDisk(Files):
    """A disk whose syncs wait until they are let."""

    def __init__(self) -> None:
        self.may_sync = threading.Event()
        self.may_sync.set()

    def fsync(self, handle: FileHandle) -> None:
        assert self.may_sync.wait(20)
        super().fsync(handle)
