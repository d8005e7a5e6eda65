"""A small disk in a file: ext4 on a loop device, which can be full and whose power can be cut.

    the power cut    ioctl EXT4_IOC_SHUTDOWN with NOLOGFLUSH: the file system stops at once and forgets what was not synced; then it is
                     unmounted and mounted again, which replays its journal. Killing a process alone keeps the page cache and proves
                     nothing about fsync.

Needs root, loop devices and mount; where one of them is missing the test is skipped with the reason.
"""

import fcntl
import os
import shutil
import struct
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

EXT4_IOC_SHUTDOWN = 0x8004587D
NO_LOG_FLUSH = 2
SIZE_BYTES = 64 << 20


class LoopDisk:
    """A mounted file system, 64 MiB unless another size is given."""

    def __init__(self, directory: Path, *, size_bytes: int = SIZE_BYTES) -> None:
        self._image = directory / "disk.img"
        self.path = directory / "mounted"
        self.path.mkdir()
        with self._image.open("wb") as image:
            image.truncate(size_bytes)
        _run("mkfs.ext4", "-q", "-E", "lazy_itable_init=0", str(self._image))

    def mount(self) -> None:
        """Mount the image, replaying its journal."""
        _run("mount", "-o", "loop", str(self._image), str(self.path))

    def unmount(self) -> None:
        """Unmount it, if it is mounted."""
        if self.path.is_mount():
            _run("umount", str(self.path))

    def cut_power(self) -> None:
        """Forget everything that is not on the disk; the mount answers every further call with an error."""
        handle = os.open(self.path, os.O_RDONLY)
        try:
            fcntl.ioctl(handle, EXT4_IOC_SHUTDOWN, struct.pack("I", NO_LOG_FLUSH))
        finally:
            os.close(handle)

    def fill(self, *, leave_bytes: int) -> Path:
        """Fill the disk but for so many bytes; returns the file that does it."""
        filler = self.path / "filler"
        state = os.statvfs(self.path)
        size = state.f_bavail * state.f_frsize - leave_bytes
        with filler.open("wb") as file:
            os.posix_fallocate(file.fileno(), 0, size)
        return filler


class NoLoopDisk(Exception):
    """There is none to be had on this machine; the text says why."""


def mounted_disk(directory: Path, *, size_bytes: int = SIZE_BYTES) -> LoopDisk:
    """A fresh small disk, mounted; NoLoopDisk where that cannot be done."""
    if os.geteuid() != 0:
        raise NoLoopDisk("needs root to mount a file system")
    for tool in ("mkfs.ext4", "mount", "umount"):
        if shutil.which(tool) is None:
            raise NoLoopDisk(f"no {tool} here")
    disk = LoopDisk(directory, size_bytes=size_bytes)
    try:
        disk.mount()
    except subprocess.CalledProcessError as error:
        raise NoLoopDisk(f"may not mount a loop device here: {error.stderr.decode(errors='replace').strip()}") from error
    return disk


@pytest.fixture
def loop_disk(tmp_path: Path) -> Iterator[LoopDisk]:
    """A fresh small disk, mounted."""
    try:
        disk = mounted_disk(tmp_path)
    except NoLoopDisk as error:
        pytest.skip(str(error))
    yield disk
    disk.unmount()


def _run(*command: str) -> None:
    subprocess.run(command, check=True, capture_output=True, timeout=60)
