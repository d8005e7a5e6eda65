"""Sessions of `KazooCoordination` when a real ZooKeeper goes and comes back: an ensemble of three, and a single one that is stopped."""

import asyncio
import gc
import os
import signal
import socket
import subprocess
import sys
import uuid
from collections.abc import Iterator

import pytest

from millstream.coordination.ensemble.kazoo_adapter import KazooCoordination
from millstream.coordination.interface import SessionState
from millstream.zookeeper.errors import ConnectionLost
from tests.cluster.server_process import Ensemble, ServerProcess, missing_zookeeper
from tests.waiting import eventually, wait_until
from tests.zookeeper_broker import tree_of

pytestmark = pytest.mark.filterwarnings("ignore::ResourceWarning")  # kazoo leaves the sockets of failed connections to the collector


@pytest.fixture(autouse=True)
def _collect_what_kazoo_left() -> Iterator[None]:
    yield
    gc.collect()


@pytest.fixture(scope="module")
def ensemble(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Ensemble]:
    reason = missing_zookeeper()
    if reason is not None:
        pytest.skip(reason)
    started = Ensemble(tmp_path_factory.mktemp("ensemble"))
    started.start()
    yield started
    started.kill()


def has_lease(coordination: KazooCoordination) -> bool:
    """mypy would take it for as constant as an attribute."""
    return coordination.has_lease


class States:
    """Every state that a session went through, and whether it had a lease then."""

    def __init__(self, coordination: KazooCoordination) -> None:
        self.seen: list[SessionState] = []
        self._coordination = coordination
        self._changed = asyncio.Event()
        coordination.add_session_listener(self._heard)

    def _heard(self, state: SessionState) -> None:
        self.seen.append(state)
        self._changed.set()

    async def until(self, *wanted: SessionState) -> None:
        async with asyncio.timeout(60):
            while tuple(self.seen) != wanted:
                await self._changed.wait()
                self._changed.clear()


async def test_a_session_survives_the_death_of_zookeepers_leader(ensemble: Ensemble) -> None:
    coordination = await KazooCoordination.connect(f"{ensemble.address}/{uuid.uuid4().hex}", session_timeout_ms=10_000)
    await coordination.create("/e", b"mine", ephemeral=True)
    session_id, leader = coordination.session_id, ensemble.leader
    leader.kill()
    wait_until(lambda: any(member.mode == "leader" for member in ensemble.members), "there is a leader again")
    async with asyncio.timeout(20):
        while True:
            try:
                _, stat = await coordination.get("/e")
                break
            except ConnectionLost:
                await asyncio.sleep(0.05)
    assert stat.ephemeral_owner == session_id == coordination.session_id
    assert coordination.has_lease
    leader.start()
    await coordination.close()


async def test_away_for_less_than_a_session_it_is_the_same_session_after_the_return(zookeeper: ServerProcess) -> None:
    coordination = await KazooCoordination.connect(f"{zookeeper.address}/{uuid.uuid4().hex}", session_timeout_ms=60_000)
    states, session_id = States(coordination), coordination.session_id
    zookeeper.kill()
    await states.until(SessionState.SUSPENDED)
    # Long enough for the pauses between the tries to have grown.
    await asyncio.sleep(3)
    assert states.seen == [SessionState.SUSPENDED]
    assert coordination.has_lease
    zookeeper.start()
    await states.until(SessionState.SUSPENDED, SessionState.CONNECTED)
    assert coordination.session_id == session_id
    await coordination.close()


async def test_a_server_that_forgets_a_connection_while_it_starts_does_not_cost_the_session(zookeeper: ServerProcess) -> None:
    """A real one does so in one of twenty starts; here something that listens in its place makes sure of it."""
    coordination = await KazooCoordination.connect(f"{zookeeper.address}/{uuid.uuid4().hex}", session_timeout_ms=60_000)
    states, session_id = States(coordination), coordination.session_id
    zookeeper.kill()
    with socket.create_server(("127.0.0.1", zookeeper.port)) as listener:
        forgotten, _ = await asyncio.to_thread(listener.accept)
    with forgotten:
        zookeeper.start()
        async with asyncio.timeout(45):  # it is given up after 10 s; kazoo alone waits for 60 s, as long as the session
            await states.until(SessionState.SUSPENDED, SessionState.CONNECTED)
    assert coordination.session_id == session_id
    await coordination.close()


async def test_a_zookeeper_that_stands_still_for_longer_than_a_session_gives_the_next_one(zookeeper: ServerProcess) -> None:
    coordination = await KazooCoordination.connect(f"{zookeeper.address}/{uuid.uuid4().hex}", session_timeout_ms=1_000)
    states, session_id = States(coordination), coordination.session_id
    os.kill(zookeeper.pid, signal.SIGSTOP)
    try:
        await states.until(SessionState.SUSPENDED)
        await asyncio.sleep(1)
        assert not has_lease(coordination)
    finally:
        os.kill(zookeeper.pid, signal.SIGCONT)
    await eventually(lambda: states.seen[-1] is SessionState.CONNECTED and has_lease(coordination), "it has a lease again")
    # Its clock stood still with it: it may have kept the session. What counts is that it is said if it has not.
    assert (coordination.session_id != session_id) == (SessionState.LOST in states.seen)
    await coordination.close()


_STOPPED = """
import asyncio, sys
from millstream.coordination.ensemble.kazoo_adapter import KazooCoordination

async def main():
    coordination = await KazooCoordination.connect(sys.argv[1], session_timeout_ms=1500)
    await coordination.create("/e", ephemeral=True)
    first, former = coordination.session_id, asyncio.get_running_loop().time()
    print("ready", coordination.has_lease, flush=True)
    for _ in range(20_000):
        # The first look after the stop is made here, before kazoo's threads or the loop have heard of anything.
        now = asyncio.get_running_loop().time()
        if now - former > 1:
            print("stopped", coordination.has_lease, flush=True)
            break
        former = now
        await asyncio.sleep(0.001)
    while not (coordination.has_lease and coordination.session_id not in (0, first)):
        await asyncio.sleep(0.01)
    print("next session", flush=True)
    await coordination.close()

asyncio.run(main())
"""


def test_a_process_that_was_stopped_for_longer_than_its_session_has_no_lease_when_it_goes_on(zookeeper: ServerProcess) -> None:
    address = f"{zookeeper.address}/{uuid.uuid4().hex}"
    process = subprocess.Popen([sys.executable, "-c", _STOPPED, address], stdout=subprocess.PIPE, text=True)
    try:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready True\n"
        os.kill(process.pid, signal.SIGSTOP)
        with tree_of(address) as tree:
            wait_until(lambda: tree.exists("/e") is None, "ZooKeeper has ended the session")
        os.kill(process.pid, signal.SIGCONT)
        assert process.stdout.readline() == "stopped False\n"
        assert process.stdout.readline() == "next session\n"
        assert process.wait(30) == 0
    finally:
        process.kill()
        process.wait()
