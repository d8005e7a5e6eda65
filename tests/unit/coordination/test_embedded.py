import subprocess
import sys
from pathlib import Path

import pytest

from millstream.coordination.embedded import EmbeddedCoordination
from millstream.coordination.interface import SessionState, WatchEvent
from millstream.files import Files
from millstream.zookeeper.errors import TreeOffline
from tests.manual_clock import ManualClock
from tests.unit.zookeeper.failing_files import FailingFiles


async def opened(directory: Path, clock: ManualClock, files: Files | None = None) -> EmbeddedCoordination:
    return await EmbeddedCoordination.open(directory, files=files or Files(), clock=clock, broker_session_name="broker-1")


async def test_after_a_kill_the_next_start_is_rid_of_the_earlier_session_at_once(tmp_path: Path, clock: ManualClock) -> None:
    killed = await opened(tmp_path, clock)
    await killed.create("/brokers/ids/1", b"first life", ephemeral=True, make_parents=True)
    alive = await opened(tmp_path, clock)
    assert await alive.exists("/brokers/ids/1") is None
    assert await alive.exists("/brokers/ids") is not None
    await alive.create("/brokers/ids/1", b"second life", ephemeral=True)
    assert alive.session_id != killed.session_id
    await alive.close()
    await killed.keeper.close()


async def test_what_was_written_is_there_after_a_restart(tmp_path: Path, clock: ManualClock) -> None:
    first = await opened(tmp_path, clock)
    await first.create("/topics/orders", b"state", make_parents=True)
    await first.create("/topics/n-", sequential=True)
    await first.close()
    second = await opened(tmp_path, clock)
    assert (await second.get("/topics/orders"))[0] == b"state"
    assert await second.create("/topics/n-", sequential=True) == "/topics/n-0000000002"
    await second.close()


async def test_a_watch_is_called_after_the_change_is_finished(tmp_path: Path, clock: ManualClock) -> None:
    coordination = await opened(tmp_path, clock)
    seen: list[WatchEvent] = []
    await coordination.exists("/a", watch=seen.append)
    coordination.keeper.execute([], session_id=0)
    creating = coordination.create("/a")
    assert seen == []
    await creating
    assert len(seen) == 1
    await coordination.close()


async def test_a_disk_that_fails_loses_the_session(tmp_path: Path, clock: ManualClock) -> None:
    files = FailingFiles()
    coordination = await opened(tmp_path, clock, files)
    states: list[SessionState] = []
    coordination.add_session_listener(states.append)
    files.is_sync_failing = True
    with pytest.raises(TreeOffline):
        await coordination.create("/a")
    with pytest.raises(TreeOffline):
        await coordination.get("/")
    assert states == [SessionState.LOST]
    await coordination.close()


async def test_closing_twice_is_closing_once(tmp_path: Path, clock: ManualClock) -> None:
    coordination = await opened(tmp_path, clock)
    await coordination.close()
    await coordination.close()


def test_the_embedded_tree_and_its_server_load_no_kazoo() -> None:
    script = "import sys, millstream.coordination.embedded, millstream.zookeeper.server; sys.exit('kazoo' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", script], check=False).returncode == 0
