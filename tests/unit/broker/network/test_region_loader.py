import asyncio
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from millstream.broker.network import region_loader as module
from millstream.broker.network.connection import PendingReply
from millstream.broker.network.outbox import Chunk
from millstream.broker.network.region_loader import SENDFILE_FROM, RegionLoader
from millstream.files import Files
from millstream.log.region import FileRegion


class Place(PendingReply):
    """A place in no connection's queue."""

    __slots__ = ("done", "sent")

    def __init__(self) -> None:
        self.done = asyncio.Event()
        self.sent: list[Chunk] = []

    def complete(self, chunks: object) -> None:
        self.sent = list(chunks)  # type: ignore[call-overload]
        self.done.set()


@pytest.fixture
def loader() -> Iterator[RegionLoader]:
    with ThreadPoolExecutor(1) as executor:
        yield RegionLoader(executor)


def region_of(path: Path, size: int) -> FileRegion:
    path.write_bytes(b"x" * size)
    return FileRegion(Files().open(path), 0, size)


def test_small_regions_become_bytes_and_large_ones_stay(loader: RegionLoader, tmp_path: Path) -> None:
    large = region_of(tmp_path / "large", SENDFILE_FROM)
    chunks: list[Chunk] = [b"<", region_of(tmp_path / "small", SENDFILE_FROM - 1), large, b">"]
    assert loader.load_warm(chunks)
    assert chunks == [b"<", b"x" * (SENDFILE_FROM - 1), large, b">"]


@pytest.mark.parametrize("size", [10, SENDFILE_FROM])
async def test_cold_regions_are_read_in_a_thread_and_then_sent(
    loader: RegionLoader, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, size: int
) -> None:
    monkeypatch.setattr(loader._page_cache, "read", lambda _region, **_around: None)
    monkeypatch.setattr(loader._page_cache, "is_warm", lambda _region: False)
    warmed: list[FileRegion] = []
    monkeypatch.setattr(module, "warm_up", warmed.append)
    region = region_of(tmp_path / "a", size)
    chunks: list[Chunk] = [b"<", region]
    assert not loader.load_warm(chunks)
    place = Place()
    loader.load_cold(chunks, place)
    async with asyncio.timeout(20):
        await place.done.wait()
    assert warmed == [region]
    assert place.sent == [b"<", region]


async def test_a_failed_read_is_left_to_the_sending(loader: RegionLoader, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(_region: FileRegion) -> None:
        raise OSError("broken disk")

    monkeypatch.setattr(module, "warm_up", fail)
    place = Place()
    loader.load_cold([region_of(tmp_path / "a", 10)], place)
    async with asyncio.timeout(20):
        await place.done.wait()
    assert len(place.sent) == 1
