"""Three brokers on one machine that replicate to each other, of either kind: each can be killed, stopped and started again on its own.

They are started by what the tests start several brokers with (`tests.cluster.brokers`); here is what a benchmark asks and measures. The
whole cluster is always ended by SIGKILL: brokers that stop all at once wait for each other to take over their partitions, and what they
leave behind is deleted anyway.
"""

from abc import abstractmethod
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from time import monotonic, sleep
from typing import Final

from bench.case import BenchError
from bench.peers.broker import Broker
from bench.peers.service import Kind, Service
from bench.raw import PartitionView, RawConnection
from tests.brokers import Broker as BrokerProcess
from tests.cluster.brokers import MIN_IN_SYNC, Brokers
from tests.cluster.server_process import ServerProcess

NODES: Final = 3
SESSION_TIMEOUT_MS: Final = 6000
"""After how much silence a broker is taken for dead, for every kind of cluster alike."""
JOIN_TIMEOUT_SECONDS: Final = 120.0
LOOK_SECONDS: Final = 0.005


class Cluster(Service):
    """The nodes, by their ids."""

    topic_config: Mapping[str, str] = {"min.insync.replicas": str(MIN_IN_SYNC)}

    def __init__(self, name: str, brokers: Brokers[BrokerProcess], *, zookeeper: ServerProcess | None = None) -> None:
        self.name = name
        self.nodes = brokers.nodes
        self.replicas = len(brokers.nodes)
        self.zookeeper = zookeeper
        self._brokers = brokers

    @property
    def pids(self) -> tuple[int, ...]:
        return tuple(self.nodes[node_id].pid for node_id in self.running_ids)

    @property
    def coordination_pids(self) -> tuple[int, ...]:
        return () if self.zookeeper is None else (self.zookeeper.pid,)

    @property
    def bootstrap_servers(self) -> str:
        return self._brokers.bootstrap_servers

    @property
    def is_running(self) -> bool:
        return len(self.running_ids) == len(self.nodes)

    @property
    def running_ids(self) -> list[int]:
        return self._brokers.running_ids

    def start_all(self) -> None:
        """Start every node (one of a quorum answers only when a majority is there), and return when each of them knows all the others."""
        self._brokers.launch(*self.nodes)
        with ThreadPoolExecutor(len(self.nodes)) as pool:
            list(pool.map(self._await_answer, self.nodes))
        self._await_members()

    def start_node(self, node_id: int) -> Broker:
        """Start one node where it was; returns when it answers, which is before the others count it as in sync."""
        started_at = monotonic()
        self._brokers.launch(node_id)
        return self._await_answer(node_id, started_at=started_at)

    def kill_node(self, node_id: int) -> None:
        """Kill one node with SIGKILL."""
        self._brokers.kill(node_id)

    def stop_node(self, node_id: int) -> float:
        """Stop one node cleanly; the seconds it took."""
        before = monotonic()
        self._brokers.stop(node_id)
        return monotonic() - before

    def connect_to(self, node_id: int, *, timeout_seconds: float = 60.0) -> RawConnection:
        return RawConnection(self.nodes[node_id].port, timeout_seconds=timeout_seconds)

    def connect(self) -> RawConnection:
        return self.connect_to(self.running_ids[0])

    def connect_to_leader(self, topic: str, partition: int) -> RawConnection:
        return self.connect_to(self.leader(topic, partition))

    def leader(self, topic: str, partition: int) -> int:
        """The node that leads a partition, as the first running node sees it; BenchError if there is none."""
        with self.connect() as connection:
            view = connection.partitions(topic).get(partition)
        if view is None or view.leader not in self.nodes:
            raise BenchError(f"{topic}-{partition} has no leader")
        return view.leader

    def controller(self) -> int:
        """The node that is the active controller."""
        with self.connect() as connection:
            return connection.quorum_leader()

    def views(self, topic: str) -> list[dict[int, PartitionView]]:
        """The topic's partitions as each running node sees them."""
        views = []
        for node_id in self.running_ids:
            with self.connect_to(node_id) as connection:
                views.append(connection.partitions(topic))
        return views

    def is_settled(self, topic: str, *, partitions: int) -> bool:
        """Whether every running node sees every partition led and fully in sync."""
        return all(
            len(view) == partitions and all(one.leader in self.nodes and len(one.in_sync) == len(one.replicas) for one in view.values())
            for view in self.views(topic)
        )

    def await_settled(self, topic: str, *, partitions: int = 1, seconds: float) -> None:
        """Wait until `is_settled`."""
        deadline = monotonic() + seconds
        while not self.is_settled(topic, partitions=partitions):
            if monotonic() > deadline:
                raise BenchError(f"{topic} is not fully in sync after {seconds:g} s: {self.views(topic)[0].get(0)}")
            sleep(LOOK_SECONDS)

    def stop(self) -> float:
        before = monotonic()
        self.kill()
        return monotonic() - before

    def kill(self) -> None:
        self._brokers.close()
        if self.zookeeper is not None:
            self.zookeeper.kill()

    def _await_answer(self, node_id: int, *, started_at: float | None = None) -> Broker:
        node = self.nodes[node_id]
        return Broker(node.process, node.port, name=f"{self.name} {node_id}", output=node.stderr, started_at=started_at or monotonic())

    def _await_members(self) -> None:
        deadline = monotonic() + JOIN_TIMEOUT_SECONDS
        for node_id in self.nodes:
            while True:
                with self.connect_to(node_id) as connection:
                    if connection.broker_count() == len(self.nodes):
                        break
                if monotonic() > deadline:
                    raise BenchError(f"node {node_id} of {self.name} does not know all its peers after {JOIN_TIMEOUT_SECONDS:g} s")
                sleep(LOOK_SECONDS)


class ClusterKind(Kind):
    """One kind of cluster: `build` makes its nodes, none of them started."""

    def __init__(self, *, nodes: int = NODES, session_timeout_ms: int = SESSION_TIMEOUT_MS) -> None:
        self.nodes = nodes
        self.session_timeout_ms = session_timeout_ms

    @abstractmethod
    def build(self, directory: Path) -> Cluster:
        """A cluster in a new directory, with what it needs beside its nodes already running."""

    def start(self, directory: Path) -> Cluster:
        directory.mkdir(parents=True)
        cluster = self.build(directory)
        try:
            cluster.start_all()
        except BaseException:
            cluster.kill()
            raise
        return cluster
