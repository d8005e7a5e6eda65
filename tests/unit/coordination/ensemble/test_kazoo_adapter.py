"""The adapter when the connection breaks, against an embedded server in the same loop; `tests/cluster/test_contract.py` tests the rest."""

import asyncio
import gc
import logging
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from millstream.clock import SystemClock
from millstream.coordination.ensemble import kazoo_adapter
from millstream.coordination.ensemble.kazoo_adapter import MOST_UNDER_WAY, KazooCoordination
from millstream.coordination.interface import SessionState, WatchEvent
from millstream.errors import StartupError
from millstream.files import Files
from millstream.zookeeper.errors import ConnectionLost, SessionExpired
from millstream.zookeeper.keeper import TreeKeeper
from millstream.zookeeper.server import CoordinationServer
from tests.manual_clock import ManualClock
from tests.waiting import eventually

# kazoo leaves the sockets of failed connections to the garbage collector.
pytestmark = pytest.mark.filterwarnings("ignore::ResourceWarning")


@pytest.fixture(autouse=True)
def _collect_what_kazoo_left() -> Iterator[None]:
    yield
    gc.collect()


def has_lease(coordination: KazooCoordination) -> bool:
    """mypy would take it for as constant as an attribute."""
    return coordination.has_lease


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


async def test_thousands_of_reads_at_once_let_the_loop_go_on(keeper: TreeKeeper) -> None:
    server = CoordinationServer(keeper)
    coordination = await KazooCoordination.connect(f"127.0.0.1:{await server.start()}")
    await coordination.create("/a", b"data")
    reads = [asyncio.create_task(coordination.get("/a")) for _ in range(2_000)]
    turns = 0
    async with asyncio.timeout(30):
        while not all(read.done() for read in reads):
            await asyncio.sleep(0.001)
            turns += 1
    assert {read.result()[0] for read in reads} == {b"data"}
    # kazoo would take them all at once, and the loop would stand until it has sent them.
    assert turns > 20
    await coordination.close()
    await server.close()


async def test_reads_that_wait_for_their_turn_fail_when_the_server_goes(keeper: TreeKeeper) -> None:
    server = CoordinationServer(keeper)
    coordination = await KazooCoordination.connect(f"127.0.0.1:{await server.start()}")
    reads = [asyncio.create_task(coordination.exists("/a")) for _ in range(5 * MOST_UNDER_WAY)]
    await asyncio.sleep(0)
    await server.close()
    async with asyncio.timeout(30):
        results = await asyncio.gather(*reads, return_exceptions=True)
    assert ConnectionLost in {type(result) for result in results}
    await coordination.close()


async def test_a_lease_outlives_the_connection_until_it_runs_out(keeper: TreeKeeper, clock: ManualClock) -> None:
    server = CoordinationServer(keeper)
    port = await server.start()
    coordination = await KazooCoordination.connect(f"127.0.0.1:{port}", session_timeout_ms=8_000, clock=clock)
    states = States(coordination)
    assert has_lease(coordination)
    await server.close()
    await states.until(SessionState.SUSPENDED)
    clock.advance(4_999)
    assert has_lease(coordination)
    clock.advance(1)
    assert not has_lease(coordination)
    again = CoordinationServer(keeper)
    await again.start("127.0.0.1", port)
    await states.until(SessionState.CONNECTED)
    await eventually(lambda: coordination.has_lease, "it has a lease")
    await coordination.close()
    assert not has_lease(coordination)
    await again.close()


async def test_a_process_that_was_stopped_has_no_lease_at_its_first_look(keeper: TreeKeeper, clock: ManualClock) -> None:
    server = CoordinationServer(keeper)
    coordination = await KazooCoordination.connect(f"127.0.0.1:{await server.start()}", session_timeout_ms=8_000, clock=clock)
    assert has_lease(coordination)
    clock.advance(8_000)
    assert not has_lease(coordination)
    await coordination.close()
    await server.close()


async def test_a_lease_ends_with_its_session_and_begins_with_the_next(keeper: TreeKeeper) -> None:
    server = CoordinationServer(keeper)
    port = await server.start()
    coordination = await KazooCoordination.connect(f"127.0.0.1:{port}", session_timeout_ms=4_000)
    states = States(coordination)
    held: list[tuple[SessionState, bool]] = []
    coordination.add_session_listener(lambda state: held.append((state, coordination.has_lease)))
    await server.close()
    await states.until(SessionState.SUSPENDED)
    keeper.close_session(next(iter(keeper.tree.sessions)))
    again = CoordinationServer(keeper)
    await again.start("127.0.0.1", port)
    await states.until(SessionState.CONNECTED)
    assert held == [(SessionState.SUSPENDED, True), (SessionState.LOST, False), (SessionState.CONNECTED, False)]
    await eventually(lambda: coordination.has_lease, "it has a lease")
    await coordination.close()
    await again.close()


async def test_the_lease_is_as_long_as_what_was_negotiated(keeper: TreeKeeper, caplog: pytest.LogCaptureFixture) -> None:
    server = CoordinationServer(keeper)
    port = await server.start()
    coordination = await KazooCoordination.connect(f"127.0.0.1:{port}", session_timeout_ms=100_000_000)
    await eventually(lambda: coordination.session_timeout_ms < 100_000_000, "a shorter timeout is negotiated")
    assert "not of 100000000 ms (zookeeper.session.timeout.ms)" in caplog.text
    await coordination.close()
    await server.close()


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


async def test_a_zookeeper_that_does_not_answer_is_not_complained_of_again_and_again(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(kazoo_adapter, "_FIRST_COMPLAINT_S", 0.01)
    with caplog.at_level(logging.WARNING, logger=kazoo_adapter.__name__), pytest.raises(StartupError, match=r"within 0\.5 s"):
        await KazooCoordination.connect("127.0.0.1:1", connect_timeout_ms=500)
    # Once; `tests/cluster/test_bad_starts.py` has what it says. Where this machine stood still, not at all.
    assert len([line for line in caplog.messages if " yet; waiting for it" in line]) <= 1
