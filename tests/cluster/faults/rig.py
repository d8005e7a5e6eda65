"""Three brokers with a proxy on every link and, where a fault needs it, a disk of its own for one of them: what faults happen to.

`MillstreamRig` has an ensemble of three real ZooKeepers behind proxies too. Apache Kafka (`KafkaRig`) is the control: its coordination is
in the broker processes, so to cut a broker from it is to cut both parts of the node from the other controllers.
"""

import subprocess
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable
from contextlib import ExitStack
from pathlib import Path
from typing import Self

from tests.brokers import Broker
from tests.cluster.brokers import MIN_IN_SYNC, START_DEADLINE_S, Brokers, KafkaBrokers, MillstreamBrokers, broker_name, controller_name
from tests.cluster.faults.network import CLIENTS, Link, Network
from tests.cluster.faults.reaper import Reaper
from tests.cluster.server_process import Ensemble, ServerProcess
from tests.crash.loop_disk import LoopDisk, NoLoopDisk, mounted_disk

DISK_BYTES = 512 << 20
DISK_NODE = 3
STARTS = 3
"""How often a broker may be started until it serves clients."""


class Rig(ABC):
    """A context manager: everything it starts ends with it."""

    peer: str
    brokers: Brokers[Broker]

    def __init__(self, directory: Path, *, session_timeout_ms: int, disks: Iterable[int] = ()) -> None:
        self.directory = directory
        self.session_timeout_ms = session_timeout_ms
        self.disks: dict[int, LoopDisk] = {}
        self.why_no_disk = "none was asked for"
        self.failed_starts: list[str] = []
        self.stack = ExitStack()
        self._wanted_disks = frozenset(disks)

    def __enter__(self) -> Self:
        with self.stack:
            self.reaper = Reaper()
            self.stack.callback(self.reaper.close)
            self.network = Network()
            self.stack.callback(self.network.close)
            for node_id in sorted(self._wanted_disks):
                self._add_disk(node_id)
            self.brokers = self._make_brokers()
            for node_id, disk in self.disks.items():
                self.brokers.nodes[node_id].data = disk.path / "data"
            self.stack.enter_context(self.brokers)
            for disk in self.disks.values():
                # Directories were made long before the power fails, in the life that is played here.
                subprocess.run(["sync", "-f", str(disk.path)], check=True, timeout=60)
            self.stack = self.stack.pop_all()
        return self

    def __exit__(self, *_: object) -> None:
        self.stack.close()

    @property
    def session_timeout_s(self) -> float:
        return self.session_timeout_ms / 1000

    @property
    def node_ids(self) -> list[int]:
        return list(self.brokers.nodes)

    def start(self, *node_ids: int) -> None:
        """Start brokers and wait until they serve clients; one that ends instead is started again, as a supervisor would do it."""
        self.brokers.launch(*node_ids)
        self.await_ready(*node_ids)

    def await_ready(self, *node_ids: int) -> None:
        """Until brokers that were launched serve clients."""
        for _ in range(STARTS - 1):
            try:
                return self.brokers.await_ready(*node_ids)
            except AssertionError as error:
                ended = [node_id for node_id in node_ids if not self.brokers.nodes[node_id].is_running]
                self.failed_starts += [f"start of broker {node_id}: {str(error).strip().splitlines()[-1]}" for node_id in ended]
                self.brokers.kill(*ended)
                self.brokers.launch(*ended)
        return self.brokers.await_ready(*node_ids)

    def others(self, node_id: int) -> list[int]:
        """All brokers but one."""
        return [other for other in self.brokers.nodes if other != node_id]

    def peer_links(self, node_id: int) -> tuple[list[Link], list[Link]]:
        """The links between a broker and the others: those it opens, and those the others open to it."""
        name, others = broker_name(node_id), [broker_name(other) for other in self.others(node_id)]
        return [Link(name, other) for other in others], [Link(other, name) for other in others]

    def client_links(self, node_id: int) -> list[Link]:
        """Between clients and a broker."""
        return [Link(CLIENTS, broker_name(node_id))]

    @abstractmethod
    def coordination_links(self, node_id: int) -> list[Link]:
        """Between a broker and whatever decides who leads: ZooKeeper, or the other controllers. Those that others open to it included."""

    def kill_coordination(self) -> Callable[[], None] | None:
        """All of the coordination's processes die; what brings them back. None where it has none of its own."""
        return None

    def kill_coordination_leader(self) -> Callable[[], None] | None:
        """The process that leads the coordination dies; what brings it back. None where it has none of its own."""
        return None

    @abstractmethod
    def _make_brokers(self) -> Brokers[Broker]:
        """Not started yet, behind proxies; what they need beside them runs."""

    def _options(self) -> dict[str, object]:
        return {
            "replica.lag.time.max.ms": self.session_timeout_ms,
            "min.insync.replicas": MIN_IN_SYNC,
            "offsets.topic.num.partitions": 3,
        }

    def _add_disk(self, node_id: int) -> None:
        place = self.directory / f"disk-{node_id}"
        place.mkdir()
        try:
            disk = mounted_disk(place, size_bytes=DISK_BYTES)
        except NoLoopDisk as error:
            self.why_no_disk = str(error)
            return
        self.reaper.watch(disk.path)
        self.disks[node_id] = disk

        def remove() -> None:
            disk.unmount()
            self.reaper.forget(disk.path)

        self.stack.callback(remove)


class MillstreamRig(Rig):
    """Its coordination is the ensemble."""

    peer = "millstream"

    def __init__(self, directory: Path, *, session_timeout_ms: int, disks: Iterable[int] = ()) -> None:
        super().__init__(directory, session_timeout_ms=session_timeout_ms, disks=disks)
        self._ensemble = Ensemble(directory)

    def coordination_links(self, node_id: int) -> list[Link]:
        return [Link(broker_name(node_id), _server_name(number)) for number in range(len(self._ensemble.members))]

    def kill_coordination(self) -> Callable[[], None]:
        for member in self._ensemble.members:
            self._kill_server(member)
        return self._start_servers

    def kill_coordination_leader(self) -> Callable[[], None]:
        self._kill_server(self._ensemble.leader)
        return self._start_servers

    def _make_brokers(self) -> Brokers[Broker]:
        self.stack.callback(self._ensemble.kill)
        self._start_servers()
        members = enumerate(self._ensemble.members)
        servers = ",".join(f"127.0.0.1:{self.network.add(_server_name(number), member.port)}" for number, member in members)
        return MillstreamBrokers(
            self.directory,
            {**self._options(), "zookeeper.connection.timeout.ms": round(START_DEADLINE_S * 1000)},
            zookeeper=f"{servers}/faults",
            session_timeout_ms=self.session_timeout_ms,
            proxies=self.network,
            watchers=[self.reaper, self.network],
        )

    def _start_servers(self) -> None:
        """Those that do not run."""
        for member in self._ensemble.members:
            if not member.is_running:
                member.launch()
                self.reaper.watch(member.pid)
        for member in self._ensemble.members:
            member.await_serving()

    def _kill_server(self, member: ServerProcess) -> None:
        if member.is_running:
            pid = member.pid
            member.kill()
            self.reaper.forget(pid)


class KafkaRig(Rig):
    """The votes of its controllers go through proxies like everything else."""

    peer = "kafka"

    def coordination_links(self, node_id: int) -> list[Link]:
        others = self.others(node_id)
        opened = [Link(broker_name(node_id), controller_name(other)) for other in others]
        return opened + [Link(broker_name(other), controller_name(node_id)) for other in others]

    def _make_brokers(self) -> Brokers[Broker]:
        return KafkaBrokers(
            self.directory,
            {**self._options(), "num.recovery.threads.per.data.dir": 1},
            session_timeout_ms=self.session_timeout_ms,
            proxies=self.network,
            watchers=[self.reaper, self.network],
        )


def make_rig(peer: str, directory: Path, *, session_timeout_ms: int, needs_a_disk: bool) -> Rig:
    """Not started yet; one broker gets a disk of its own if a fault needs that."""
    kind: type[Rig] = KafkaRig if peer == "kafka" else MillstreamRig
    return kind(directory, session_timeout_ms=session_timeout_ms, disks=[DISK_NODE] if needs_a_disk else [])


def _server_name(number: int) -> str:
    return f"coordination-{number + 1}"
