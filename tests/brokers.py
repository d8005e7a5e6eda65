"""Real broker processes for tests: started, stopped, killed and started again on the same data and port.

The broker is Millstream, or Apache Kafka 4.2 when the environment says `MILLSTREAM_TEST_PEER=kafka`. A client test that fails against Kafka
is wrong; one that passes there and fails here shows a difference that a client can see.

A broker's output goes to files beside its data directory. Processes are ended by their own id, and a fixture ends what a test left running.
"""

import os
import signal
import subprocess
import sys
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Protocol

import pytest

from tests.connection import METADATA, Connection, ConnectionEnded
from tests.java import SMALL_MACHINE, java_command
from tests.ports import free_port
from tests.waiting import wait_until

IS_KAFKA = os.environ.get("MILLSTREAM_TEST_PEER") == "kafka"
"""Whether the tests run against Apache Kafka instead of Millstream."""

Options = Mapping[str, object]


class Broker(ABC):
    """One broker process on one data directory."""

    def __init__(self, directory: Path, options: Options) -> None:
        self.directory = directory
        self.data = directory / "data"
        self.more_data: list[Path] = []
        """Further data directories, on other disks so to speak."""
        self.options = {name: str(value) for name, value in options.items()}
        self.host = "127.0.0.1"
        self.port = 0
        self.advertised_port = 0
        """Where clients and other brokers connect, if that is not where it listens: a proxy."""
        self.in_own_group = False
        """Whether Ctrl-C in the terminal does not reach it."""
        self.lives = 0
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def address(self) -> tuple[str, int]:
        """Where it listens."""
        return self.host, self.port

    @property
    def bootstrap_servers(self) -> str:
        """Where it listens, as clients write it."""
        return f"{self.host}:{self.port}"

    @property
    def process(self) -> "subprocess.Popen[bytes]":
        """The present or last process."""
        assert self._process is not None, "the broker was never started"
        return self._process

    @property
    def pid(self) -> int:
        """Process id of the running broker."""
        return self.process.pid

    @property
    def is_running(self) -> bool:
        """Whether the process lives."""
        return self._process is not None and self._process.poll() is None

    @property
    def output(self) -> str:
        """What the present or last process printed, on both streams."""
        return self.stdout.read_text(errors="replace") + self.stderr.read_text(errors="replace")

    def connect(self, *, timeout_s: float = 30.0) -> Connection:
        """A raw connection to it."""
        return Connection(self.address, timeout_s=timeout_s)

    def start(self, *, deadline_s: float = 60) -> None:
        """Start the process and wait until it serves clients."""
        self.launch()
        self.await_ready(deadline_s=deadline_s)

    def launch(self) -> None:
        """Start the process, and do not wait."""
        assert not self.is_running
        self.lives += 1
        with self.stdout.open("wb") as stdout, self.stderr.open("wb") as stderr:
            group = 0 if self.in_own_group else None
            self._process = subprocess.Popen(self.command(), stdin=subprocess.DEVNULL, stdout=stdout, stderr=stderr, process_group=group)

    def await_ready(self, *, deadline_s: float = 60) -> None:
        """Wait until it serves clients."""
        wait_until(self._is_ready_or_dead, f"ready: {self.command()}", deadline_s=deadline_s)
        if not self.is_running:
            raise AssertionError(f"the broker ended with {self.wait()} before it was ready:\n{self.output}")

    def stop(self) -> int:
        """Clean shutdown; returns the exit code."""
        return self._end(signal.SIGTERM)

    def kill(self) -> None:
        """The end without warning."""
        self._end(signal.SIGKILL)

    def restart(self) -> None:
        """Start again on the same data and port, stopping cleanly first if it still runs."""
        if self.is_running:
            self.stop()
        self.start()

    def wait(self) -> int:
        """Wait for the process to end by itself; returns the exit code."""
        assert self._process is not None
        return self._process.wait(timeout=60)

    def partition_directory(self, topic: str, partition: int = 0) -> Path:
        """Where a partition's files are."""
        return self.data / f"{topic}-{partition}"

    def resident_bytes(self) -> int:
        """Resident memory of the process."""
        fields = Path(f"/proc/{self.pid}/statm").read_text().split()
        return int(fields[1]) * os.sysconf("SC_PAGE_SIZE")

    def _end(self, number: signal.Signals) -> int:
        if self._process is None:
            return 0
        if self._process.poll() is None:
            self._process.send_signal(number)
        try:
            return self._process.wait(timeout=60)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
            raise AssertionError(f"the broker did not end within 60 s of {number.name}:\n{self.output}") from None

    @property
    def stdout(self) -> Path:
        """The file with what the present or last process printed."""
        return self.directory / f"stdout-{self.lives}.txt"

    @property
    def stderr(self) -> Path:
        """The file with what it logged."""
        return self.directory / f"stderr-{self.lives}.txt"

    def _is_ready_or_dead(self) -> bool:
        return not self.is_running or self._is_ready()

    @abstractmethod
    def command(self) -> list[str]:
        """What is executed."""

    @abstractmethod
    def _is_ready(self) -> bool: ...


class MillstreamBroker(Broker):
    """`millstream serve` on the loopback; on a free port unless one is set. `zookeeper`: where its znodes are, if not in itself."""

    def __init__(self, directory: Path, options: Options, *, node_id: int = 1, zookeeper: str = "") -> None:
        super().__init__(directory, options)
        self.node_id = node_id
        self.keeps_znodes = not zookeeper
        self.coordination = zookeeper
        self.flags = ["--no-registry", "--metrics", "off"]

    @property
    def data_directories(self) -> Sequence[Path]:
        """What is given as --data."""
        return (self.data, *self.more_data)

    def command(self) -> list[str]:
        command = [str(Path(sys.executable).with_name("millstream")), "serve", *self.flags, "--node-id", str(self.node_id)]
        command += ["--listen", f"{self.host}:{self.port}"]
        if self.advertised_port:
            command += ["--advertise", f"{self.host}:{self.advertised_port}"]
        command += ["--coordination", self.coordination or f"{self.host}:0"] if self.keeps_znodes else ["--zookeeper", self.coordination]
        command += [word for path in self.data_directories for word in ("--data", str(path))]
        return command + [word for name, value in self.options.items() for word in ("-X", f"{name}={value}")]

    def _is_ready(self) -> bool:
        for line in self.stdout.read_text(errors="replace").splitlines(keepends=True):
            if line.startswith("ready:") and line.endswith("\n"):
                words = line.removeprefix("ready:").split()
                places = dict(zip(words[::2], words[1::2], strict=True))
                self.port = int(places["broker"].rpartition(":")[2])
                self.coordination = places["coordination"]
                return True
        return False


class KafkaBroker(Broker):
    """Apache Kafka in KRaft mode, broker and controller in one process. `voters`: of all controllers, if there are others."""

    def __init__(self, directory: Path, options: Options, *, node_id: int = 1, jvm: Sequence[str] = SMALL_MACHINE) -> None:
        super().__init__(directory, options)
        self.node_id = node_id
        self.controller_port = 0
        self.voters = ""
        self.format_flags: list[str] = []
        self._jvm = jvm

    def start(self, *, deadline_s: float = 180) -> None:
        super().start(deadline_s=deadline_s)

    def launch(self) -> None:
        """Format the data directory when it is new, then start."""
        self.format()
        super().launch()

    def format(self) -> None:
        """Make an empty data directory ready for its first start."""
        if (self.data / "meta.properties").exists():
            return
        self.port = self.port or free_port()
        self.controller_port = self.controller_port or free_port()
        self._write_properties()
        arguments = ["format", "-t", "cGVuc3RvY2stdGVzdHMtMQ", "-c", str(self._properties()), *self.format_flags]
        subprocess.run(java_command("kafka.tools.StorageTool", *arguments), check=True, capture_output=True, timeout=180)

    def command(self) -> list[str]:
        return java_command("kafka.Kafka", str(self._properties()), jvm=self._jvm)

    def _properties(self) -> Path:
        return self.directory / "server.properties"

    def _write_properties(self) -> None:
        properties = {
            "process.roles": "broker,controller",
            "node.id": f"{self.node_id}",
            "listeners": f"PLAINTEXT://{self.host}:{self.port},CONTROLLER://{self.host}:{self.controller_port}",
            "advertised.listeners": f"PLAINTEXT://{self.host}:{self.advertised_port or self.port}",
            "controller.listener.names": "CONTROLLER",
            "controller.quorum.voters": self.voters or f"{self.node_id}@{self.host}:{self.controller_port}",
            "log.dirs": ",".join(map(str, (self.data, *self.more_data))),
            "offsets.topic.replication.factor": "1",
            "transaction.state.log.replication.factor": "1",
            "transaction.state.log.min.isr": "1",
            "group.initial.rebalance.delay.ms": "0",
            "offsets.topic.num.partitions": "1",
            "log.initial.task.delay.ms": "0",
        }
        lines = [f"{name}={value}\n" for name, value in (properties | self.options).items()]
        self._properties().write_text("".join(lines))

    def _is_ready(self) -> bool:
        try:
            with self.connect(timeout_s=5) as connection:
                return any(broker.node_id == self.node_id for broker in connection.ask(METADATA, 12, {"topics": []}).brokers)
        except (OSError, ConnectionEnded):
            return False


class StartBroker(Protocol):
    """What the fixture `start_broker` hands to a test."""

    def __call__(self, *, data: Path | None = None, start: bool = True, **options: object) -> Broker:
        """Start a broker with options written as keyword arguments: `segment_bytes=1000` sets `segment.bytes`."""


def make_broker(directory: Path, options: Options) -> Broker:
    """A broker that is not started yet; its data goes below `directory`."""
    directory.mkdir(parents=True, exist_ok=True)
    return KafkaBroker(directory, options) if IS_KAFKA else MillstreamBroker(directory, options)


@pytest.fixture(scope="session")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Broker]:
    """One broker for all tests of a folder that do not disturb each other: each uses topics of its own."""
    shared = make_broker(tmp_path_factory.mktemp("broker"), {})
    shared.start()
    yield shared
    shared.stop()


@pytest.fixture
def start_broker(tmp_path: Path) -> Iterator[StartBroker]:
    """Starts brokers that belong to one test; whatever still runs at its end is killed."""
    started: list[Broker] = []

    def start(*, data: Path | None = None, start: bool = True, **options: object) -> Broker:
        named = {name.replace("_", "."): value for name, value in options.items()}
        own = make_broker(tmp_path / f"broker{len(started)}", named)
        if data is not None:
            own.data = data
        started.append(own)
        if start:
            own.start()
        return own

    yield start
    for own in started:
        own.kill()
