"""What a follower that is far behind gets is read in a thread of its leader before it is sent: clients do not wait for that disk."""

from pathlib import Path
from threading import current_thread, main_thread

import pytest

from millstream.broker.network import page_cache, region_loader
from millstream.log.region import FileRegion
from tests.unit.broker.replication.replica_broker import ReplicaCluster, replica_cluster

COUNT = 20


@pytest.fixture
def read_by_threads(monkeypatch: pytest.MonkeyPatch) -> list[FileRegion]:
    read: list[FileRegion] = []

    def warm_up(region: FileRegion) -> None:
        assert current_thread() is not main_thread()
        page_cache.warm_up(region)
        read.append(region)

    monkeypatch.setattr(region_loader, "warm_up", warm_up)
    return read


async def copy(cluster: ReplicaCluster) -> None:
    await cluster.lead(1, epoch=0, in_sync=(1,), only=(1,))
    for _ in range(COUNT):
        cluster.brokers[1].append(b"x" * 40_000)
    await cluster.announce(2)
    await cluster.until_equal()


async def test_old_data_is_read_in_a_thread_though_the_page_cache_seems_to_have_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, read_by_threads: list[FileRegion]
) -> None:
    monkeypatch.setattr(page_cache, "WARM_TAIL", 200_000)
    async with replica_cluster(tmp_path, options={"replica.fetch.max.bytes": "100000"}) as cluster:
        await copy(cluster)
        assert cluster.brokers[2].content() == cluster.brokers[1].content()
    assert read_by_threads
    assert read_by_threads[0].position == 0


async def test_data_that_was_just_written_is_sent_at_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, read_by_threads: list[FileRegion]
) -> None:
    monkeypatch.setattr(page_cache.PageCache, "is_warm", lambda _cache, _region: True)
    async with replica_cluster(tmp_path, options={"replica.fetch.max.bytes": "100000"}) as cluster:
        await copy(cluster)
    assert not read_by_threads
