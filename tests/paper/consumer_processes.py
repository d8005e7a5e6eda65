"""Consumers in processes of their own, and what they noted."""

import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.paper.sites import Site
from tests.waiting import wait_until

PROJECT = Path(__file__).parents[2]


class ConsumerProcess:
    """One process."""

    def __init__(self, site: Site, group: str, topic: str, *, name: str, directory: Path, pause_s: float) -> None:
        self.file = directory / f"{name}.notes"
        self.file.touch()
        module = "tests.paper.consumer_process"
        command = [sys.executable, "-m", module, site.coordination, group, topic, name, str(self.file), str(pause_s)]
        self._process = subprocess.Popen(
            command, cwd=PROJECT, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        )

    @property
    def notes(self) -> list[tuple[int, int, int]]:
        """Partition, offset and number of each message that was handled."""
        lines = self.file.read_bytes().split(b"\n")[:-1]
        return [(int(first), int(second), int(third)) for first, second, third in (line.split() for line in lines if line != b"joined")]

    @property
    def numbers(self) -> set[int]:
        return {number for _, _, number in self.notes}

    def await_joined(self) -> None:
        wait_until(lambda: b"joined" in self.file.read_bytes(), "the process is in the group")

    def await_messages(self, count: int) -> None:
        wait_until(lambda: len(self.notes) >= count, f"{count} messages in a process")

    def pause(self) -> None:
        os.kill(self._process.pid, signal.SIGSTOP)

    def resume(self) -> None:
        os.kill(self._process.pid, signal.SIGCONT)

    def kill(self) -> None:
        self._process.kill()
        self._process.wait(20)


StartConsumer = Callable[..., ConsumerProcess]


@pytest.fixture
def start_consumer(site: Site, tmp_path: Path) -> Iterator[StartConsumer]:
    started: list[ConsumerProcess] = []

    def start(group: str, topic: str, *, name: str, pause_s: float = 0.0) -> ConsumerProcess:
        started.append(ConsumerProcess(site, group, topic, name=name, directory=tmp_path, pause_s=pause_s))
        return started[-1]

    yield start
    for process in started:
        process.kill()
