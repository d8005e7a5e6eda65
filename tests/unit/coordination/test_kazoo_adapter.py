"""The adapter when the connection breaks, against an embedded server in the same loop; `tests/cluster/test_contract.py` tests the rest."""

import asyncio
import gc
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from millstream.clock import SystemClock
from millstream.coordination.interface import SessionState, WatchEvent
from millstream.coordination.kazoo_adapter import KazooCoordination
from millstream.errors import StartupError
from millstream.files import Files
from millstream.zookeeper.errors import ConnectionLost, SessionExpired
from millstream.zookeeper.keeper import TreeKeeper
from millstream.zookeeper.server import CoordinationServer

# kazoo leaves the sockets of failed connections to the garbage collector.
pytestmark = pytest.mark.filterwarnings("ignore::ResourceWarning")


@pytest.fixture(autouse=True)
def _collect_what_kazoo_left() -> Iterator[None]:
    yield
    gc.collect()


class States:
    """Listens to a session and can be waited for."""

    def __init__(self, coordination: KazooCoordination) -> None:
        self._states: asyncio.Queue[SessionState] = asyncio.Queue()
        coordination.add_session_listener(self._states.put_nowait)

    async def until(self, wanted: SessionState) -> None:
        async with asyncio.timeout(30):
            while await self._states.get() is not wanted:
                continue


@pytest.fixture
async def keeper(tmp_path: Path) -> AsyncIterator[TreeKeeper]:
    keeper = await TreeKeeper.open(tmp_path, files=Files(), clock=SystemClock())
    yield keeper
    await keeper.close()


async def test_a_session_survives_the_restart_of_the_server(keeper: TreeKeeper) -> None:
    server = CoordinationServer(keeper)
    port = await server.start()
    coordination = await KazooCoordination.connect(f"127.0.0.1:{port}")
    states, events = States(coordination), list[WatchEvent]()
    session_id = coordination.session_id
    await coordination.create("/e", ephemeral=True)
    await coordination.get("/e", watch=events.append)
    await server.close()
    await states.until(SessionState.SUSPENDED)
    with pytest.raises(ConnectionLost):
        await coordination.get("/e")
    again = CoordinationServer(keeper)
    await again.start("127.0.0.1", port)
    await states.until(SessionState.CONNECTED)
    assert coordination.session_id == session_id
    assert (await coordination.get("/e"))[1].ephemeral_owner == session_id
    assert events == []
    await coordination.close()
    await again.close()


async def test_an_expired_session_is_lost_and_followed_by_a_new_one(keeper: TreeKeeper) -> None:
    server = CoordinationServer(keeper)
    port = await server.start()
    coordination = await KazooCoordination.connect(f"127.0.0.1:{port}")
    states = States(coordination)
    old = coordination.session_id
    await coordination.create("/e", ephemeral=True)
    await server.close()
    await states.until(SessionState.SUSPENDED)
    keeper.close_session(old)
    again = CoordinationServer(keeper)
    await again.start("127.0.0.1", port)
    await states.until(SessionState.LOST)
    await states.until(SessionState.CONNECTED)
    assert coordination.session_id not in (0, old)
    assert await coordination.exists("/e") is None
    await coordination.close()
    await again.close()


async def test_requests_under_way_fail_when_the_server_goes(keeper: TreeKeeper) -> None:
    server = CoordinationServer(keeper)
    port = await server.start()
    coordination = await KazooCoordination.connect(f"127.0.0.1:{port}")
    writes = [asyncio.create_task(coordination.create("/n-", sequential=True)) for _ in range(200)]
    await asyncio.sleep(0)
    await server.close()
    results = await asyncio.gather(*writes, return_exceptions=True)
    assert all(isinstance(result, str | ConnectionLost | SessionExpired) for result in results)
    await coordination.close()


async def test_a_server_that_is_not_there_is_a_clear_sentence() -> None:
    with pytest.raises(StartupError, match="no ZooKeeper answers"):
        await KazooCoordination.connect("127.0.0.1:1", connect_timeout_ms=300)


async def test_a_chroot_is_made_and_hidden(keeper: TreeKeeper) -> None:
    server = CoordinationServer(keeper)
    port = await server.start()
    coordination = await KazooCoordination.connect(f"127.0.0.1:{port}/millstream/test")
    assert await coordination.create("/a") == "/a"
    assert "/millstream/test/a" in keeper.tree.nodes
    await coordination.close()
    await server.close()
