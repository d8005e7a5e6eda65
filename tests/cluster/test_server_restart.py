"""The embedded server as a process that is killed: its clients keep their sessions, and what was acknowledged is there."""

import gc
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from kazoo.client import KazooClient
from kazoo.protocol.states import KazooState

from tests.cluster.server_process import ServerProcess
from tests.waiting import wait_until

# kazoo leaves the sockets of failed connections to the garbage collector.
pytestmark = pytest.mark.filterwarnings("ignore::ResourceWarning")


@pytest.fixture(autouse=True)
def _collect_what_kazoo_left() -> Iterator[None]:
    yield
    gc.collect()


@pytest.fixture
def server(tmp_path: Path) -> Iterator[ServerProcess]:
    server = ServerProcess("embedded", tmp_path)
    server.start()
    yield server
    server.kill()


@pytest.fixture
def client(server: ServerProcess) -> Iterator[KazooClient]:
    client = KazooClient(server.address, timeout=20, connection_retry={"max_tries": -1, "delay": 0.05, "max_delay": 0.1})
    client.start()
    yield client
    client.stop()
    client.close()


def test_a_client_lives_through_the_death_of_the_server(server: ServerProcess, client: KazooClient) -> None:
    came_back = threading.Event()
    client.add_listener(lambda state: came_back.set() if state == KazooState.CONNECTED else None)
    client.create("/ephemeral", b"mine", ephemeral=True)
    client.create("/queue")
    client.create("/queue/n-", sequence=True)
    session_id, zxid = client.client_id[0], client.exists("/queue/n-0000000000").czxid
    server.kill()
    server.start()
    assert came_back.wait(20)
    wait_until(lambda: client.connected, "the client is connected again")
    assert client.client_id[0] == session_id
    assert client.get("/ephemeral")[1].ephemeralOwner == session_id
    assert client.create("/queue/n-", sequence=True) == "/queue/n-0000000001"
    assert client.exists("/queue/n-0000000001").czxid >> 32 > zxid >> 32


@pytest.mark.parametrize("life", [1, 2, 3])
def test_nothing_acknowledged_is_lost_when_the_server_is_killed_under_load(server: ServerProcess, client: KazooClient, life: int) -> None:
    client.ensure_path("/load")
    acknowledged: list[str] = []

    def write() -> None:
        for result in [client.create_async("/load/n-", bytes(100), sequence=True) for _ in range(2_000)]:
            result.wait(10)
            if result.successful():
                acknowledged.append(result.value)

    writer = threading.Thread(target=write)
    writer.start()
    wait_until(lambda: len(acknowledged) > 100 * life, "some writes are acknowledged")
    server.kill()
    server.start()
    writer.join()
    wait_until(lambda: client.connected, "the client is connected again")
    assert set(acknowledged) <= {f"/load/{name}" for name in client.get_children("/load")}
