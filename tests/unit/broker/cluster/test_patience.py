import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from millstream.broker.cluster import patience
from millstream.broker.cluster.patience import patiently
from millstream.broker.server import BrokerServer
from millstream.broker.server_options import ServerOptions
from millstream.coordination.embedded import EmbeddedCoordination
from millstream.errors import StartupError
from millstream.zookeeper.errors import ConnectionLost, TreeOffline

CALLS = ("create", "get", "set", "delete", "exists", "children", "multi")
MOST_CALLS = 60


@pytest.fixture(autouse=True)
def quick_retries(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(patience, "RETRY_S", 0.001)


class LostAnswers:
    """Carries out all that is asked of a coordination, and loses one answer while a broker starts."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.left = 0
        for name in CALLS:
            monkeypatch.setattr(EmbeddedCoordination, name, self._losing(getattr(EmbeddedCoordination, name)))

    def _losing(self, method: Callable[..., Any]) -> Callable[..., Any]:
        async def ask(*arguments: Any, **options: Any) -> Any:
            answer = await method(*arguments, **options)
            if asyncio.current_task() is self.starting:
                self.left -= 1
                if self.left == 0:
                    raise ConnectionLost("gone")
            return answer

        return ask

    starting: asyncio.Task[object] | None = None


async def test_a_start_bears_the_loss_of_any_answer(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    answers = LostAnswers(monkeypatch)
    answers.starting = asyncio.current_task()
    for lost in range(1, MOST_CALLS):
        answers.left = lost
        options = ServerOptions(listen_port=0, coordination_port=0, data=(tmp_path / str(lost % 2),), options={})
        async with BrokerServer(options) as server:
            assert set(server._cluster.view().brokers) == {1}
            assert server._cluster.registration.epoch == server._cluster.view().lives[1]
            is_covered = answers.left > 0
            answers.left = 0
        if is_covered:
            assert lost > len(CALLS)
            return
    pytest.fail("a start asks for more than that")


async def test_who_waits_for_too_long_says_how_long_and_what_to_do() -> None:
    async def never() -> None:
        raise ConnectionLost("gone")

    with pytest.raises(StartupError, match=r"away for 5 ms .*\(gone\).*zookeeper\.connection\.timeout\.ms"):
        await patiently(never, timeout_ms=5)


async def test_a_tree_on_a_failed_disk_is_not_waited_for() -> None:
    async def failed() -> None:
        raise TreeOffline("the disk")

    with pytest.raises(TreeOffline):
        await patiently(failed, timeout_ms=60_000)
