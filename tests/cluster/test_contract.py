"""One contract for every tree of znodes: what `millstream.coordination.interface` promises, on the embedded tree and on ZooKeeper."""

import asyncio

import pytest

from millstream.coordination.interface import Check, Coordination, Create, Delete, SetData, WatchEvent, WatchKind, ZnodeStat
from millstream.zookeeper.errors import (
    BadArguments,
    BadVersion,
    ConnectionLost,
    NoChildrenForEphemerals,
    NodeExists,
    NoNode,
    NotEmpty,
    SessionExpired,
)
from tests.cluster.conftest import OpenSession


class Watch:
    """A watch that remembers what it saw."""

    def __init__(self) -> None:
        self._events: asyncio.Queue[WatchEvent] = asyncio.Queue()

    def __call__(self, event: WatchEvent) -> None:
        self._events.put_nowait(event)

    async def next(self) -> WatchEvent:
        async with asyncio.timeout(20):
            return await self._events.get()

    @property
    def is_silent(self) -> bool:
        return self._events.empty()


async def test_a_created_znode_can_be_read(coordination: Coordination) -> None:
    assert await coordination.create("/a", b"data") == "/a"
    data, stat = await coordination.get("/a")
    assert data == b"data"
    assert (stat.version, stat.cversion, stat.data_length, stat.children_count, stat.ephemeral_owner) == (0, 0, 4, 0, 0)
    assert stat.czxid == stat.mzxid == stat.pzxid
    assert await coordination.exists("/a") == stat


async def test_empty_data_stays_empty(coordination: Coordination) -> None:
    await coordination.create("/a")
    assert (await coordination.get("/a"))[0] == b""


async def test_a_znode_holds_half_a_megabyte(coordination: Coordination) -> None:
    await coordination.create("/big", bytes(500_000))
    assert len((await coordination.get("/big"))[0]) == 500_000


async def test_a_path_may_be_any_text(coordination: Coordination) -> None:
    await coordination.create("/Grüße an 世界", b"x")
    assert "Grüße an 世界" in await coordination.children("/")


@pytest.mark.parametrize("path", ["", "a", "/a/", "//a", "/a//b", "/a/./b", "/a/../b", "/a\x00b", "/a\x1fb", "/\ue000"])
async def test_a_path_that_cannot_be_is_refused(coordination: Coordination, path: str) -> None:
    for attempt in (coordination.create(path), coordination.get(path), coordination.exists(path), coordination.delete(path)):
        with pytest.raises(BadArguments):
            await attempt


async def test_a_znode_is_created_once(coordination: Coordination) -> None:
    await coordination.create("/a")
    with pytest.raises(NodeExists):
        await coordination.create("/a")


async def test_a_znode_needs_its_parent(coordination: Coordination) -> None:
    with pytest.raises(NoNode):
        await coordination.create("/a/b/c")
    assert await coordination.create("/a/b/c", b"x", make_parents=True) == "/a/b/c"
    assert await coordination.children("/a/b") == ["c"]


async def test_what_is_not_there_cannot_be_read_or_changed(coordination: Coordination) -> None:
    assert await coordination.exists("/a") is None
    for attempt in (coordination.get("/a"), coordination.set("/a", b""), coordination.delete("/a"), coordination.children("/a")):
        with pytest.raises(NoNode):
            await attempt


async def test_a_write_with_an_old_version_changes_nothing(coordination: Coordination) -> None:
    await coordination.create("/a", b"0")
    assert (await coordination.set("/a", b"1", version=0)).version == 1
    with pytest.raises(BadVersion):
        await coordination.set("/a", b"2", version=0)
    with pytest.raises(BadVersion):
        await coordination.delete("/a", version=0)
    assert (await coordination.get("/a"))[0] == b"1"
    assert (await coordination.set("/a", b"3")).version == 2
    await coordination.delete("/a", version=2)
    assert await coordination.exists("/a") is None


async def test_a_znode_with_children_stays(coordination: Coordination) -> None:
    await coordination.create("/a/b", make_parents=True)
    with pytest.raises(NotEmpty):
        await coordination.delete("/a")


async def test_children_are_sorted_names(coordination: Coordination) -> None:
    await coordination.create("/a")
    for name in ("c", "a", "b"):
        await coordination.create(f"/a/{name}")
    assert await coordination.children("/a") == ["a", "b", "c"]


async def test_the_stat_counts_creates_and_deletes_of_children(coordination: Coordination) -> None:
    await coordination.create("/a")
    for name in ("x", "y", "z"):
        await coordination.create(f"/a/{name}")
    await coordination.delete("/a/y")
    stat = await coordination.exists("/a")
    assert stat is not None
    assert (stat.cversion, stat.children_count, stat.version) == (4, 2, 0)
    assert stat.pzxid > stat.mzxid


async def test_a_sequential_number_counts_creates_under_the_parent(coordination: Coordination) -> None:
    await coordination.create("/q")
    assert await coordination.create("/q/n-", sequential=True) == "/q/n-0000000000"
    await coordination.create("/q/other")
    await coordination.delete("/q/n-0000000000")
    assert await coordination.create("/q/n-", sequential=True) == "/q/n-0000000002"
    assert await coordination.create("/q/", sequential=True) == "/q/0000000003"


async def test_an_ephemeral_znode_goes_with_its_session(coordination: Coordination, open_session: OpenSession) -> None:
    other = await open_session()
    await other.create("/e", b"x", ephemeral=True)
    _, stat = await coordination.get("/e")
    assert stat.ephemeral_owner == other.session_id != coordination.session_id
    gone = Watch()
    await coordination.exists("/e", watch=gone)
    await other.close()
    assert await gone.next() == WatchEvent(WatchKind.DELETED, "/e")
    assert await coordination.exists("/e") is None


async def test_an_ephemeral_znode_has_no_children(coordination: Coordination) -> None:
    await coordination.create("/e", ephemeral=True)
    with pytest.raises(NoChildrenForEphemerals):
        await coordination.create("/e/child")


async def test_a_watch_on_data_fires_once(coordination: Coordination) -> None:
    await coordination.create("/a")
    watch, later = Watch(), Watch()
    await coordination.get("/a", watch=watch)
    await coordination.set("/a", b"1")
    assert await watch.next() == WatchEvent(WatchKind.CHANGED, "/a")
    await coordination.get("/a", watch=later)
    await coordination.set("/a", b"2")
    await later.next()
    assert watch.is_silent


async def test_a_watch_waits_for_a_znode_that_is_not_there(coordination: Coordination) -> None:
    watch = Watch()
    assert await coordination.exists("/a", watch=watch) is None
    await coordination.create("/a")
    assert await watch.next() == WatchEvent(WatchKind.CREATED, "/a")


async def test_a_watch_on_children_sees_them_come_and_go(coordination: Coordination) -> None:
    await coordination.create("/a")
    came, went, deleted = Watch(), Watch(), Watch()
    await coordination.children("/a", watch=came)
    await coordination.create("/a/b")
    assert await came.next() == WatchEvent(WatchKind.CHILDREN, "/a")
    await coordination.children("/a", watch=went)
    await coordination.set("/a", b"data is not a child")
    await coordination.delete("/a/b")
    assert await went.next() == WatchEvent(WatchKind.CHILDREN, "/a")
    await coordination.children("/a", watch=deleted)
    await coordination.delete("/a")
    assert await deleted.next() == WatchEvent(WatchKind.DELETED, "/a")


async def test_each_registration_of_a_watch_is_called(coordination: Coordination) -> None:
    await coordination.create("/a")
    watch = Watch()
    await coordination.get("/a", watch=watch)
    await coordination.exists("/a", watch=watch)
    await coordination.children("/a", watch=watch)
    await coordination.delete("/a")
    for _ in range(3):
        assert await watch.next() == WatchEvent(WatchKind.DELETED, "/a")


async def test_a_read_that_failed_watches_nothing(coordination: Coordination) -> None:
    failed, seen = Watch(), Watch()
    with pytest.raises(NoNode):
        await coordination.get("/a", watch=failed)
    await coordination.exists("/a", watch=seen)
    await coordination.create("/a")
    await seen.next()
    assert failed.is_silent


async def test_a_change_of_another_session_fires_a_watch(coordination: Coordination, open_session: OpenSession) -> None:
    await coordination.create("/a")
    watch = Watch()
    await coordination.get("/a", watch=watch)
    await (await open_session()).set("/a", b"theirs")
    assert (await watch.next()).kind is WatchKind.CHANGED
    assert (await coordination.get("/a"))[0] == b"theirs"


async def test_a_multi_does_everything_and_returns_each_result(coordination: Coordination) -> None:
    await coordination.create("/a", b"0")
    await coordination.create("/gone")
    created, changed, deleted, checked, numbered = await coordination.multi(
        [
            Create("/a/b", b"x", ephemeral=True),
            SetData("/a", b"1", 0),
            Delete("/gone"),
            Check("/a", 1),
            Create("/a/n-", sequential=True),
        ]
    )
    assert created == "/a/b"
    assert isinstance(changed, ZnodeStat)
    assert changed.version == 1
    assert (deleted, checked, numbered) == (None, None, "/a/n-0000000001")
    assert await coordination.children("/a") == ["b", "n-0000000001"]


async def test_a_multi_sees_its_own_earlier_operations(coordination: Coordination) -> None:
    await coordination.multi([Create("/a"), Create("/a/b"), SetData("/a/b", b"1"), Delete("/a/b"), Check("/a", 0)])
    assert await coordination.children("/a") == []


async def test_a_multi_that_fails_leaves_no_trace(coordination: Coordination) -> None:
    await coordination.create("/a", b"0")
    before = await coordination.exists("/a")
    watch = Watch()
    await coordination.get("/a", watch=watch)
    with pytest.raises(BadVersion) as raised:
        await coordination.multi([Create("/a/b"), SetData("/a", b"1"), Check("/a", 7), Create("/c")])
    assert raised.value.operation_index == 2
    assert await coordination.exists("/a") == before
    assert await coordination.children("/a") == []
    assert await coordination.exists("/c") is None
    assert await coordination.create("/a/n-", sequential=True) == "/a/n-0000000000"
    assert watch.is_silent


async def test_an_empty_multi_does_nothing(coordination: Coordination) -> None:
    assert await coordination.multi([]) == []


async def test_writes_that_check_the_version_lose_no_update(open_session: OpenSession) -> None:
    sessions = [await open_session() for _ in range(3)]
    await sessions[0].create("/counter", b"0")

    async def count(session: Coordination) -> None:
        for _ in range(10):
            while True:
                data, stat = await session.get("/counter")
                try:
                    await session.set("/counter", str(int(data) + 1).encode(), version=stat.version)
                    break
                except BadVersion:
                    continue

    await asyncio.gather(*[count(session) for session in sessions])
    assert (await sessions[0].get("/counter"))[0] == b"30"


async def test_a_session_has_a_lease_until_it_is_closed(open_session: OpenSession) -> None:
    session = await open_session()
    assert session.has_lease
    await session.close()
    assert not session.has_lease


async def test_a_closed_session_answers_nothing(open_session: OpenSession) -> None:
    session = await open_session()
    await session.close()
    for attempt in (session.create("/late"), session.get("/"), session.children("/"), session.multi([Create("/late")])):
        with pytest.raises((SessionExpired, ConnectionLost)):
            await attempt
