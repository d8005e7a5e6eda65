"""Where the coordination tests get their trees: embedded, embedded behind ZooKeeper's protocol, and a real ZooKeeper."""

import uuid
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import AsyncExitStack
from pathlib import Path

import pytest

from millstream.clock import SystemClock
from millstream.coordination.embedded import EmbeddedCoordination
from millstream.coordination.ensemble.kazoo_adapter import KazooCoordination
from millstream.coordination.interface import Coordination
from millstream.files import Files
from millstream.zookeeper.keeper import TreeKeeper
from millstream.zookeeper.server import CoordinationServer
from tests.cluster.server_process import ServerProcess, missing_zookeeper

OpenSession = Callable[[], Awaitable[Coordination]]
"""Begins one more session in the tree of the test."""


@pytest.fixture(scope="session")
def zookeeper(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    """A real ZooKeeper for the whole run; skips where there is none."""
    reason = missing_zookeeper()
    if reason is not None:
        pytest.skip(reason)
    process = ServerProcess("zookeeper", tmp_path_factory.mktemp("zookeeper"))
    process.start()
    yield process
    process.stop()


@pytest.fixture
async def keeper(tmp_path: Path) -> AsyncIterator[TreeKeeper]:
    keeper = await TreeKeeper.open(tmp_path / "coordination", files=Files(), clock=SystemClock())
    yield keeper
    await keeper.close()


@pytest.fixture
async def server_port(keeper: TreeKeeper) -> AsyncIterator[int]:
    server = CoordinationServer(keeper)
    yield await server.start("127.0.0.1", 0)
    await server.close()


@pytest.fixture(params=["embedded", "kazoo to embedded", "kazoo to ZooKeeper"])
async def open_session(request: pytest.FixtureRequest, keeper: TreeKeeper, server_port: int) -> AsyncIterator[OpenSession]:
    """Sessions in one tree, closed when the test ends."""
    async with AsyncExitStack() as sessions:
        chroot = f"/contract-{uuid.uuid4().hex}"
        if request.param == "embedded":
            opener = _embedded(keeper)
        elif request.param == "kazoo to embedded":
            opener = _kazoo(f"127.0.0.1:{server_port}{chroot}")
        else:
            opener = _kazoo(f"{request.getfixturevalue('zookeeper').address}{chroot}")

        async def open_one() -> Coordination:
            session = await opener()
            sessions.push_async_callback(session.close)
            return session

        yield open_one


@pytest.fixture
async def coordination(open_session: OpenSession) -> Coordination:
    return await open_session()


def _embedded(keeper: TreeKeeper) -> OpenSession:
    async def open_one() -> Coordination:
        return EmbeddedCoordination(keeper, broker_session_name=uuid.uuid4().hex)

    return open_one


def _kazoo(hosts: str) -> OpenSession:
    async def open_one() -> Coordination:
        return await KazooCoordination.connect(hosts, session_timeout_ms=10_000)

    return open_one
