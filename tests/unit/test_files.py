import errno
import os
from collections.abc import Sequence
from pathlib import Path

import pytest

from millstream.buffer import Buffer
from millstream.files import FileHandle, Files


class StutteringFiles(Files):
    """Writes at most three bytes per call, as a system call may."""

    def pwritev(self, handle: FileHandle, buffers: Sequence[Buffer], position: int) -> int:
        return os.pwrite(handle.fd, b"".join(buffers)[:3], position)


class StuckFiles(Files):
    """Accepts nothing and does not complain."""

    def pwritev(self, handle: FileHandle, buffers: Sequence[Buffer], position: int) -> int:
        return 0


@pytest.fixture
def files() -> Files:
    return Files()


def test_a_handle_closes_its_descriptor_with_the_last_reference(files: Files, tmp_path: Path) -> None:
    handle = files.open(tmp_path / "a", create=True)
    descriptor = handle.fd
    os.fstat(descriptor)
    del handle
    with pytest.raises(OSError, match="Bad file descriptor"):
        os.fstat(descriptor)


def test_a_file_that_does_not_exist_is_only_made_on_demand(files: Files, tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        files.open(tmp_path / "a")
    files.open(tmp_path / "a", create=True)
    assert files.exists(tmp_path / "a")


def test_a_file_that_stays_open_leaves_the_spare_descriptors_alone(tmp_path: Path) -> None:
    files, closed = Files(), 0
    idle: list[FileHandle] = []
    path = tmp_path / "log"
    path.touch()
    kept = files.open_to_stay(path)
    files.first_spare = kept.fd + 1

    def close_idle() -> None:
        nonlocal closed
        closed += 1
        idle.clear()

    files.close_idle = close_idle
    free = kept.fd
    del kept
    idle.append(files.open(path))
    assert idle[0].fd == free, "the lowest number that is free"
    assert files.open_to_stay(path).fd == free, "idle files make room"
    busy = files.open(path)
    next_free = files.open(path).fd
    with pytest.raises(OSError, match="Too many open files") as refused:
        files.open_to_stay(path)
    assert files.open(path).fd == next_free, "what was refused is closed, whoever keeps the error"
    assert (closed, refused.value.errno, busy.fd) == (2, errno.EMFILE, free)


def test_a_read_only_handle_cannot_write(files: Files, tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(b"x")
    handle = files.open(tmp_path / "a", read_only=True)
    with pytest.raises(OSError, match="Bad file descriptor"):
        files.pwritev(handle, [b"y"], 0)


def test_buffers_are_written_one_after_the_other_at_the_position(files: Files, tmp_path: Path) -> None:
    handle = files.open(tmp_path / "a", create=True)
    files.write_all(handle, [b"0123456789"], 0)
    assert files.write_all(handle, [b"ab", memoryview(b"cd"), bytearray(b"e")], 3) == 5
    assert files.pread(handle, 100, 0) == b"012abcde89"


def test_writing_all_goes_on_after_a_short_write(tmp_path: Path) -> None:
    files = StutteringFiles()
    handle = files.open(tmp_path / "a", create=True)
    assert files.write_all(handle, [b"hello ", b"world"], 0) == 11
    assert (tmp_path / "a").read_bytes() == b"hello world"


def test_writing_all_gives_up_when_nothing_moves(tmp_path: Path) -> None:
    files = StuckFiles()
    handle = files.open(tmp_path / "a", create=True)
    with pytest.raises(OSError, match="no progress"):
        files.write_all(handle, [b"x"], 0)


def test_an_atomic_write_replaces_the_whole_content_and_leaves_no_temporary_file(files: Files, tmp_path: Path) -> None:
    path = tmp_path / "checkpoint"
    path.write_bytes(b"a much longer old content")
    files.write_atomically(path, b"new")
    assert files.read_bytes(path) == b"new"
    assert files.list_directory(tmp_path) == ["checkpoint"]


def test_an_atomic_write_that_fails_keeps_the_old_content(tmp_path: Path) -> None:
    path = tmp_path / "checkpoint"
    path.write_bytes(b"old")
    with pytest.raises(OSError, match="no progress"):
        StuckFiles().write_atomically(path, b"new")
    assert path.read_bytes() == b"old"


def test_an_atomic_write_ignores_what_an_interrupted_one_left_behind(files: Files, tmp_path: Path) -> None:
    (tmp_path / "checkpoint.tmp").write_bytes(b"half of something that was longer")
    files.write_atomically(tmp_path / "checkpoint", b"new")
    assert files.read_bytes(tmp_path / "checkpoint") == b"new"


def test_truncating_cuts_and_extends(files: Files, tmp_path: Path) -> None:
    handle = files.open(tmp_path / "a", create=True)
    files.write_all(handle, [b"0123456789"], 0)
    files.truncate(handle, 4)
    files.truncate(handle, 6)
    assert files.pread(handle, 100, 0) == b"0123\0\0"
    assert files.size(handle) == 6


def test_a_lock_has_one_holder_until_its_handle_is_gone(files: Files, tmp_path: Path) -> None:
    first = files.open(tmp_path / ".lock", create=True)
    second = files.open(tmp_path / ".lock", create=True)
    assert files.lock(first)
    assert not files.lock(second)
    del first
    assert files.lock(second)


def test_status_has_size_and_time_of_the_last_change(files: Files, tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(b"12345")
    os.utime(tmp_path / "a", (1_700_000_000, 1_700_000_000))
    assert files.status(tmp_path / "a") == (5, 1_700_000_000_000)


def test_removing_what_is_gone_is_fine(files: Files, tmp_path: Path) -> None:
    files.unlink(tmp_path / "nothing")
    files.make_directory(tmp_path / "a" / "b")
    files.make_directory(tmp_path / "a" / "b")
    files.remove_directory(tmp_path / "a" / "b")
    assert files.list_directory(tmp_path / "a") == []


def test_files_and_directories_can_be_put_on_disk(files: Files, tmp_path: Path) -> None:
    handle = files.open(tmp_path / "a", create=True)
    files.write_all(handle, [b"x"], 0)
    files.fsync(handle)
    files.rename(tmp_path / "a", tmp_path / "b")
    files.fsync_directory(tmp_path)
    assert files.list_directory(tmp_path) == ["b"]
