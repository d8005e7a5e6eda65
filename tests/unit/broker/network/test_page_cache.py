import errno
import os
from pathlib import Path

import pytest

from millstream.broker.network.page_cache import WARM_TAIL, PageCache, warm_up
from millstream.files import Files
from millstream.log.region import FileRegion


def region_of(path: Path, content: bytes, position: int = 0, length: int | None = None) -> FileRegion:
    path.write_bytes(content)
    return FileRegion(Files().open(path), position, len(content) - position if length is None else length)


def failing_with(code: int) -> object:
    def preadv(_fd: int, _buffers: list[bytearray], _position: int, _flags: int) -> int:
        raise OSError(code, os.strerror(code))

    return preadv


def test_bytes_that_were_just_written_are_warm(tmp_path: Path) -> None:
    cache = PageCache()
    region = region_of(tmp_path / "a", b"0123456789", 2, 5)
    assert cache.read(region) == bytearray(b"23456")
    assert cache.is_warm(region)


def test_a_small_region_is_read_to_its_place_in_an_answer(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    region = region_of(tmp_path / "a", b"0123456789", 2, 5)
    assert PageCache().read(region, before=b"<<", after=b">") == bytearray(b"<<23456>")
    monkeypatch.setattr(os, "preadv", failing_with(errno.EOPNOTSUPP))
    assert PageCache().read(region, before=b"<<", after=b">") == bytearray(b"<<23456>")


def test_what_is_not_cached_is_cold(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    region = region_of(tmp_path / "a", b"0123456789")
    monkeypatch.setattr(os, "preadv", failing_with(errno.EAGAIN))
    cache = PageCache()
    assert cache.read(region) is None
    assert not cache.is_warm(region)


@pytest.mark.parametrize("missing", [0, 300_000, 600_000, (1 << 20) - (256 << 10)])
def test_what_is_still_being_read_ahead_is_cold_though_what_is_around_it_is_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, missing: int
) -> None:
    region = region_of(tmp_path / "a", bytes(1 << 20))
    read = os.preadv

    def preadv(fd: int, buffers: list[bytearray], position: int, _flags: int) -> int:
        if missing <= position < missing + (256 << 10):
            raise BlockingIOError(errno.EAGAIN, os.strerror(errno.EAGAIN))
        return read(fd, buffers, position)

    monkeypatch.setattr(os, "preadv", preadv)
    assert not PageCache().is_warm(region)
    missing = region.length
    assert PageCache().is_warm(region)


def test_half_of_it_is_not_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    region = region_of(tmp_path / "a", b"0123456789")
    monkeypatch.setattr(os, "preadv", lambda _fd, _buffers, _position, _flags: 4)
    assert PageCache().read(region) is None


@pytest.mark.parametrize("code", [errno.EOPNOTSUPP, errno.EINVAL, errno.ENOSYS])
def test_without_reads_from_the_cache_alone_the_end_of_a_file_is_warm_and_the_rest_cold(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, code: int
) -> None:
    path = tmp_path / "a"
    path.write_bytes(b"")
    os.truncate(path, WARM_TAIL + 1000)
    handle = Files().open(path)
    recent, old = FileRegion(handle, 1000, 10), FileRegion(handle, 0, 10)
    monkeypatch.setattr(os, "preadv", failing_with(code))
    for cache in (PageCache(), PageCache()):
        assert cache.read(recent) == bytearray(10)
        assert cache.is_warm(recent)
        assert cache.read(old) is None
        assert not cache.is_warm(old)


def test_a_file_that_became_shorter_is_cold_and_never_half_an_answer(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    region = region_of(tmp_path / "a", b"0123456789")
    os.truncate(tmp_path / "a", 4)
    cache = PageCache()
    assert cache.read(region) is None
    assert not (cache._can_ask and cache.is_warm(region))  # in memory (tmpfs) it cannot ask, and guesses
    monkeypatch.setattr(os, "preadv", failing_with(errno.EOPNOTSUPP))
    assert PageCache().read(region) is None
    warm_up(region)


def test_a_disk_error_is_raised_when_the_region_is_sent_and_not_here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    region = region_of(tmp_path / "a", b"0123456789")
    monkeypatch.setattr(os, "preadv", failing_with(errno.EIO))
    cache = PageCache()
    assert cache.read(region) is None
    assert not cache.is_warm(region)
    assert cache._can_ask


def test_a_disk_error_is_not_raised_here_where_the_cache_cannot_be_asked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def failing(*_: object) -> bytes:
        raise OSError(errno.EIO, "Input/output error")

    region = region_of(tmp_path / "a", b"0123456789")
    monkeypatch.setattr(os, "preadv", failing_with(errno.EOPNOTSUPP))
    monkeypatch.setattr(os, "pread", failing)
    assert PageCache().read(region) is None


def test_warming_up_reads_where_a_file_cannot_be_sent_to_nowhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    region = region_of(tmp_path / "a", b"0123456789", 2, 100)
    read: list[int] = []
    pread = os.pread

    def noted(fd: int, length: int, position: int) -> bytes:
        read.append(position)
        return pread(fd, length, position)

    def sendfile(_out: int, _in: int, _position: int, _length: int) -> int:
        raise OSError(errno.EINVAL, os.strerror(errno.EINVAL))

    monkeypatch.setattr(os, "pread", noted)
    warm_up(region)
    assert read == []
    monkeypatch.setattr(os, "sendfile", sendfile)
    warm_up(region)
    assert read == [2, 10], "up to the end of a file that is shorter than the region"
