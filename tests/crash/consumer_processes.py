"""Consumer processes for tests that kill them, and what all of them together have got, in order of its arrival."""

import signal
import subprocess
import sys
from pathlib import Path
from typing import Self

from tests.brokers import Broker
from tests.clients.group_consumer import Delivery
from tests.clients.group_kinds import Kind

ROOT = Path(__file__).parents[2]


class ConsumerProcess:
    """One process of `consumer_process`."""

    def __init__(self, command: list[str], output: Path) -> None:
        self.output = output
        with output.open("wb") as stream, output.with_suffix(".errors").open("wb") as errors:
            self.process = subprocess.Popen(command, stdout=stream, stderr=errors, stdin=subprocess.DEVNULL, cwd=ROOT)

    @property
    def lines(self) -> list[str]:
        """The whole lines that it has written."""
        return [line.rstrip("\n") for line in self.output.read_text().splitlines(keepends=True) if line.endswith("\n")]

    @property
    def owned(self) -> int:
        """How many partitions it last said that it owns."""
        return next((int(line.split()[1]) for line in reversed(self.lines) if line.startswith("owns")), 0)

    def kill(self) -> None:
        """The end without warning: it leaves no group and closes nothing."""
        self.process.send_signal(signal.SIGKILL)
        self.process.wait()

    def check(self) -> None:
        """It must not have ended by itself."""
        assert self.process.poll() is None, self.output.with_suffix(".errors").read_text()


class ConsumerProcesses:
    """The processes of one group."""

    def __init__(self, directory: Path, broker: Broker, kind: Kind, *, group: str, topic: str) -> None:
        self.started: list[ConsumerProcess] = []
        self.alive: list[ConsumerProcess] = []
        self._directory = directory
        self._arguments = [kind.name, broker.bootstrap_servers, group, topic]
        self._topic = topic

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        for process in self.alive:
            process.kill()

    def start(self, instance: str | None = None) -> ConsumerProcess:
        """One more."""
        command = [sys.executable, "-m", "tests.crash.consumer_process", *self._arguments, *([instance] if instance else [])]
        process = ConsumerProcess(command, self._directory / f"consumer-{len(self.started)}.txt")
        self.started.append(process)
        self.alive.append(process)
        return process

    def kill(self, process: ConsumerProcess) -> None:
        """One less."""
        self.alive.remove(process)
        process.kill()

    def delivered(self) -> list[Delivery]:
        """What each process got, one process after the other; raises if one ended by itself."""
        for process in self.alive:
            process.check()
        return [self._delivery(line) for process in self.started for line in process.lines if not line.startswith("owns")]

    def _delivery(self, line: str) -> Delivery:
        partition, offset, value = line.split()
        return Delivery(self._topic, int(partition), int(offset), value.encode())
