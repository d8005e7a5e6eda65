"""A broker as a child process: started, found ready by a Metadata answer, measured, stopped by its pid.

`Peer` knows how to start one kind of broker; `Broker` is one that runs. Everything listens on loopback only. The port is chosen
before the start, because start-up is measured from exec to the first Metadata answer, and asking needs an address.
"""

import os
import signal
import subprocess
from abc import abstractmethod
from collections.abc import Sequence
from pathlib import Path
from time import monotonic, sleep

from bench.case import BenchError
from bench.peers.service import Kind, Service
from bench.raw import RawConnection
from tests.ports import free_port

START_TIMEOUT_SECONDS = 120.0
STOP_TIMEOUT_SECONDS = 60.0
POLL_SECONDS = 0.002


class Broker(Service):
    """One running broker process."""

    def __init__(self, process: "subprocess.Popen[bytes]", port: int, *, name: str, output: Path, started_at: float) -> None:
        self.process = process
        self.port = port
        self.name = name
        self.output = output
        self.start_seconds = self._await_metadata(started_at)
        self.resident_bytes_after_start = self.resident_bytes()

    @property
    def pid(self) -> int:
        return self.process.pid

    @property
    def bootstrap_servers(self) -> str:
        return f"127.0.0.1:{self.port}"

    @property
    def pids(self) -> tuple[int, ...]:
        return (self.process.pid,)

    @property
    def is_running(self) -> bool:
        return self.process.poll() is None

    def connect(self) -> RawConnection:
        return RawConnection(self.port)

    def connect_to_leader(self, topic: str, partition: int) -> RawConnection:
        return self.connect()

    def is_settled(self, topic: str, *, partitions: int) -> bool:
        """Whether the end of every partition is known."""
        with self.connect() as connection:
            try:
                return all(connection.end_offset(topic, partition) >= 0 for partition in range(partitions))
            except BenchError:
                return False

    def stop(self) -> float:
        """Stop cleanly; the seconds it took. A broker that does not go is killed, and that is an error."""
        before = monotonic()
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
        try:
            self.process.wait(STOP_TIMEOUT_SECONDS)
        except subprocess.TimeoutExpired:
            self.kill()
            raise BenchError(f"{self.name} did not stop within {STOP_TIMEOUT_SECONDS:g} s of SIGTERM and was killed") from None
        return monotonic() - before

    def kill(self) -> None:
        """Stop as a crash would: SIGKILL."""
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait(STOP_TIMEOUT_SECONDS)

    def _await_metadata(self, started_at: float) -> float:
        while monotonic() < started_at + START_TIMEOUT_SECONDS:
            if self.process.poll() is not None:
                raise BenchError(f"{self.name} ended with exit code {self.process.returncode} before it was ready:\n{self._last_output()}")
            try:
                with RawConnection(self.port, timeout_seconds=2.0) as connection:
                    if connection.broker_count() > 0:
                        return monotonic() - started_at
            except OSError:
                pass
            sleep(POLL_SECONDS)
        self.kill()
        raise BenchError(f"{self.name} gave no Metadata answer within {START_TIMEOUT_SECONDS:g} s:\n{self._last_output()}")

    def _last_output(self) -> str:
        return "\n".join(self.output.read_text(errors="replace").splitlines()[-15:])


class Peer(Kind):
    """One kind of single broker. `format` makes an empty directory ready, `command` is what to exec."""

    def format(self, directory: Path, port: int) -> None:
        """Whatever has to be done once before the first start; not part of the start-up time."""
        directory.mkdir(parents=True, exist_ok=True)

    @abstractmethod
    def command(self, directory: Path, port: int) -> Sequence[str]:
        """The command that serves `directory` on 127.0.0.1:`port`."""

    def start(self, directory: Path, *, port: int | None = None) -> Broker:
        """Start on a directory, formatting it if it is new, and wait for the first Metadata answer."""
        port = port or free_port()
        if not directory.exists():
            self.format(directory, port)
        output = directory.with_suffix(".output")
        with output.open("ab") as stream:
            started_at = monotonic()
            process = subprocess.Popen(self.command(directory, port), stdout=stream, stderr=stream, stdin=subprocess.DEVNULL, cwd=directory)
        try:
            return Broker(process, port, name=self.name, output=output, started_at=started_at)
        except BaseException:
            if process.poll() is None:
                os.kill(process.pid, signal.SIGKILL)
                process.wait()
            raise
