"""`millstream registry serve` as a process: started on a broker, stopped, killed, held, and started again at the same address."""

import signal
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Protocol

import pytest

from millstream.registry.client import RegistryClient
from tests.brokers import Broker
from tests.waiting import wait_until

SERVE = ["-m", "millstream.cli.main", "registry", "serve"]


class RegistryProcess:
    """One instance."""

    def __init__(self, brokers: str, directory: Path, *, program: Sequence[str] = SERVE) -> None:
        self.brokers = brokers
        self.directory = directory
        self.program = list(program)
        self.port = 0
        self.lives = 0
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    @property
    def process(self) -> "subprocess.Popen[bytes]":
        assert self._process is not None
        return self._process

    @property
    def output(self) -> str:
        return self._file("stdout").read_text() + self._file("stderr").read_text()

    def start(self, *, wait: bool = True) -> None:
        """Start, and wait until the log has been read."""
        self.lives += 1
        command = [sys.executable, *self.program, "-b", self.brokers, "--listen", f"127.0.0.1:{self.port}"]
        with self._file("stdout").open("wb") as out, self._file("stderr").open("wb") as err:
            self._process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=out, stderr=err)
        if wait:
            wait_until(self.is_ready_or_dead, "the registry is ready")
            assert self.process.poll() is None, self.output

    def client(self) -> RegistryClient:
        """A client that asks once, so that a test sees what happens."""
        return RegistryClient(self.url, retries=0, timeout_s=30)

    def kill(self) -> None:
        self._end(signal.SIGKILL)

    def stop(self) -> int:
        return self._end(signal.SIGTERM)

    def hold(self) -> None:
        """It stands still, as on a machine that stalls."""
        self.process.send_signal(signal.SIGSTOP)

    def release(self) -> None:
        self.process.send_signal(signal.SIGCONT)

    def _end(self, number: signal.Signals) -> int:
        if self._process is None:
            return 0
        if self._process.poll() is None:
            self._process.send_signal(signal.SIGCONT)
            self._process.send_signal(number)
        return self._process.wait(timeout=30)

    def is_ready_or_dead(self) -> bool:
        """Whether it has said that it is ready, or has ended."""
        for line in self._file("stdout").read_text().splitlines(keepends=True):
            if line.startswith("ready: registry ") and line.endswith("\n"):
                self.port = int(line.rpartition(":")[2])
                return True
        return self.process.poll() is not None

    def _file(self, name: str) -> Path:
        return self.directory / f"{name}-{self.lives}.txt"


class StartRegistry(Protocol):
    """What the fixture `start_registry` hands to a test."""

    def __call__(self, broker: Broker, *, program: Sequence[str] = SERVE, start: bool = True) -> RegistryProcess: ...


@pytest.fixture
def start_registry(tmp_path: Path) -> Iterator[StartRegistry]:
    """Starts registries that belong to one test; whatever still runs at its end is killed."""
    started: list[RegistryProcess] = []

    def start(broker: Broker, *, program: Sequence[str] = SERVE, start: bool = True) -> RegistryProcess:
        directory = tmp_path / f"registry{len(started)}"
        directory.mkdir()
        one = RegistryProcess(broker.bootstrap_servers, directory, program=program)
        started.append(one)
        if start:
            one.start()
        return one

    yield start
    for one in started:
        one.kill()


@pytest.fixture(scope="session")
def registry(broker: Broker, tmp_path_factory: pytest.TempPathFactory) -> Iterator[RegistryProcess]:
    """One registry for all tests that keep apart by the names of their subjects."""
    shared = RegistryProcess(broker.bootstrap_servers, tmp_path_factory.mktemp("registry"))
    shared.start()
    yield shared
    assert shared.stop() == 0, shared.output
    assert "Traceback" not in shared.output
