"""Three brokers that reach each other, their clients and their coordination through proxies: started, watched, and ended whatever happens.

What a fault needs to know (who leads, who is the controller) is asked of the brokers over the wire, past the proxies.
"""

import os
import signal
import subprocess
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self, TypeVar

from tests.brokers import Broker
from tests.cluster.faults.network import CLIENTS, Link, Network
from tests.cluster.faults.reaper import Reaper
from tests.connection import FIND_COORDINATOR, METADATA, Connection, ConnectionEnded
from tests.crash.loop_disk import LoopDisk, NoLoopDisk, mounted_disk

T = TypeVar("T")
NODE_IDS = (1, 2, 3)
START_DEADLINE_S = 180.0
DISK_BYTES = 512 << 20
_ASK_TIMEOUT_S = 5.0
_POLL_S = 0.1


class NotHealthy(Exception):
    """The cluster did not come back in time; the text says what is missing."""


@dataclass(frozen=True)
class PartitionMetadata:
    """What one broker says about a partition."""

    leader: int
    in_sync: frozenset[int]


class Cluster(ABC):
    """The brokers of one rig, by node id. A context manager: everything it starts ends with it."""

    peer: str

    def __init__(self, directory: Path, *, session_timeout_ms: int, disks: Iterable[int] = ()) -> None:
        self.directory = directory
        self.session_timeout_s = session_timeout_ms / 1000
        self.nodes: dict[int, Broker] = {}
        self.disks: dict[int, LoopDisk] = {}
        self.why_no_disk = "none was asked for"
        self.proxy_ports: dict[int, int] = {}
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
            self.stack.callback(self._end_nodes)
            self._build()
            self.start(*NODE_IDS)
            for disk in self.disks.values():
                # Directories were made long before the power fails, in the life that is played here.
                subprocess.run(["sync", "-f", str(disk.path)], check=True, timeout=60)
            self.stack = self.stack.pop_all()
        return self

    def __exit__(self, *_: object) -> None:
        self.stack.close()

    @property
    def bootstrap_servers(self) -> str:
        return ",".join(f"127.0.0.1:{port}" for port in self.proxy_ports.values())

    def start(self, *node_ids: int) -> None:
        """Start these together and wait until all serve clients."""
        self.launch(*node_ids)
        self.await_ready(*node_ids)

    def launch(self, *node_ids: int) -> None:
        """Start these, and do not wait."""
        for node_id in node_ids:
            node = self.nodes[node_id]
            node.launch()
            self.reaper.watch(node.pid)
            self.network.belongs_to(node.pid, broker_name(node_id))

    def await_ready(self, *node_ids: int) -> None:
        """Until all of them serve clients."""
        with ThreadPoolExecutor() as threads:
            waiting = [threads.submit(self.nodes[node_id].await_ready, deadline_s=START_DEADLINE_S) for node_id in node_ids]
            for ready in waiting:
                ready.result()

    def kill(self, node_id: int) -> None:
        """SIGKILL."""
        self._end(node_id, Broker.kill)

    def stop(self, node_id: int) -> None:
        """SIGTERM, and wait for the clean end."""
        self._end(node_id, Broker.stop)

    def pause(self, node_id: int) -> None:
        """SIGSTOP: it holds its connections and says nothing."""
        os.kill(self.nodes[node_id].pid, signal.SIGSTOP)

    def resume(self, node_id: int) -> None:
        """SIGCONT."""
        os.kill(self.nodes[node_id].pid, signal.SIGCONT)

    def metadata(self, topic: str, *, asked: int | None = None) -> Mapping[int, PartitionMetadata]:
        """The partitions of a topic as that broker, or any that answers, sees them."""
        request = {"topics": [{"name": topic, "topic_id": None}], "allow_auto_topic_creation": False}
        answer = self.ask(METADATA, 12, request, asked=asked)
        return {
            partition.partition_index: PartitionMetadata(partition.leader_id, frozenset(partition.isr_nodes))
            for partition in answer.topics[0].partitions
        }

    def coordinator(self, group: str) -> int:
        """Who coordinates a group."""
        answer = self.ask(FIND_COORDINATOR, 4, {"key_type": 0, "coordinator_keys": [group]})
        return int(answer.coordinators[0].node_id)

    @abstractmethod
    def controller(self) -> int:
        """Who is the controller; -1 if there is none."""

    def ask(self, api_key: int, version: int, fields: Mapping[str, object], *, asked: int | None = None) -> Any:
        """One request, past the proxies, to that broker or to the first that answers."""
        for node_id in NODE_IDS if asked is None else (asked,):
            if not self.nodes[node_id].is_running:
                continue
            try:
                with Connection(self.nodes[node_id].address, timeout_s=_ASK_TIMEOUT_S) as connection:
                    return connection.ask(api_key, version, fields)
            except (OSError, ConnectionEnded):
                continue
        raise NotHealthy(f"no answer from {'any broker' if asked is None else f'broker {asked}'}")

    def await_healthy(self, topics: Iterable[str], *, deadline_s: float) -> None:
        """Until every broker says that every partition of these topics has a leader and all replicas in sync."""
        names = list(topics)
        end = time.monotonic() + deadline_s
        while (missing := self._missing(names)) is not None:
            if time.monotonic() > end:
                raise NotHealthy(f"not healthy after {deadline_s:g} s: {missing}")
            time.sleep(_POLL_S)

    def peer_links(self, node_id: int) -> tuple[list[Link], list[Link]]:
        """The links between a broker and the others: those it opens, and those the others open to it."""
        name, others = broker_name(node_id), [broker_name(other) for other in NODE_IDS if other != node_id]
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
    def _build(self) -> None:
        """Make the nodes and their proxies."""

    def _missing(self, topics: list[str]) -> str | None:
        try:
            for node_id in NODE_IDS:
                for topic in topics:
                    partitions = self.metadata(topic, asked=node_id)
                    if not partitions:
                        return f"broker {node_id} knows no partition of {topic}"
                    for number, partition in partitions.items():
                        if partition.leader < 0 or len(partition.in_sync) < len(NODE_IDS):
                            in_sync = sorted(partition.in_sync)
                            return f"broker {node_id} says that {topic}-{number} is led by {partition.leader}, in sync on {in_sync}"
        except NotHealthy as error:
            return str(error)
        return None

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

    def _end(self, node_id: int, how: Callable[[Broker], object]) -> None:
        node = self.nodes[node_id]
        if node.lives:
            pid = node.pid
            how(node)
            self.network.ended(pid)
            self.reaper.forget(pid)

    def _end_nodes(self) -> None:
        for node_id in self.nodes:
            self.kill(node_id)


def broker_name(node_id: int) -> str:
    """What a broker is called on the network."""
    return f"broker-{node_id}"


def place_of(cluster: Cluster, node_id: int) -> Path:
    """Where the files of a node go; its data may be on a disk of its own."""
    directory = cluster.directory / broker_name(node_id)
    directory.mkdir(parents=True, exist_ok=True)
    return directory
