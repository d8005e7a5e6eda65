import asyncio
import socket
from asyncio.subprocess import Process
from collections.abc import AsyncIterator
from contextlib import suppress

import pytest

from millstream.registry.socket_activation import SocketActivation, listen
from tests.waiting import eventually

SLEEPS = "import time; time.sleep(600)"


class Sleeper(SocketActivation):
    """A child that sleeps, and a broker that makes a mistake about it."""

    name = "sleeper"

    def __init__(self, listener: socket.socket, *, mistakes: int) -> None:
        super().__init__(listener, pause_s=0.0)
        self.mistakes = mistakes
        self.attended: list[Process] = []

    def arguments(self) -> list[str]:
        return ["-c", SLEEPS]

    async def attend(self, process: Process) -> None:
        self.attended.append(process)
        if len(self.attended) <= self.mistakes:
            raise ZeroDivisionError


@pytest.fixture
async def sleeper() -> AsyncIterator[Sleeper]:
    async with Sleeper(listen("127.0.0.1", 0), mistakes=1) as activation:
        yield activation
    assert all(process.returncode is not None for process in activation.attended)


async def test_mistake_ends_the_child_and_the_next_request_starts_it_again(sleeper: Sleeper, caplog: pytest.LogCaptureFixture) -> None:
    assert sleeper.attended == []
    _, writer = await asyncio.open_connection(*sleeper.address)
    # The connection still waits to be accepted, so it is at once the next request.
    await eventually(lambda: len(sleeper.attended) == 2, "a second child")
    assert sleeper.attended[0].returncode is not None
    assert sleeper.attended[1].returncode is None
    assert "the sleeper is ended" in caplog.text
    writer.close()


class Failing(Sleeper):
    """A child that gives up by itself."""

    def arguments(self) -> list[str]:
        return ["-c", "raise SystemExit(3)"]


async def test_child_that_gives_up_is_not_started_again_by_the_connection_that_waited_for_it(caplog: pytest.LogCaptureFixture) -> None:
    async with Failing(listen("127.0.0.1", 0), mistakes=0) as activation:
        for count in (1, 2):
            reader, writer = await asyncio.open_connection(*activation.address)
            with suppress(ConnectionResetError):
                assert await reader.read(1) == b""
            writer.close()
            assert len(activation.attended) == count
    assert caplog.text.count("the sleeper ended with 3") == 2
