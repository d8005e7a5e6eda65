"""Three brokers on one machine that replicate to each other, of either kind: each can be killed, stopped and started again on its own.

All nodes are started at once (a node of a quorum answers only when a majority is there), each on the port and directory that it keeps. The
whole cluster is always ended by SIGKILL: brokers that stop all at once wait for each other to take over their partitions, and what they
leave behind is deleted anyway.
"""

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from time import monotonic, sleep
from typing import Final

from bench.case import BenchError
from bench.peers.broker import Broker, Peer, free_port
from bench.peers.service import Kind, Service
from bench.raw import PartitionView, RawConnection
from tests.cluster.server_process import ServerProcess

NODE_IDS: Final = (1, 2, 3)
MIN_IN_SYNC: Final = 2
SESSION_TIMEOUT_MS: Final = 6000
"""After how much silence a broker is taken for dead, for every kind of cluster alike."""
JOIN_TIMEOUT_SECONDS: Final = 120.0
LOOK_SECONDS: Final = 0.005


@dataclass(slots=True)
class Node:
    """One place of a cluster, and the broker that runs there, if any."""

    peer: Peer
    directory: Path
    port: int
    broker: Broker | None = None

    @property
    def is_running(self) -> bool:
        return self.broker is not None and self.broker.is_running


class Cluster(Service):
    """The nodes, by their ids."""

    topic_config: Mapping[str, str] = {"min.insync.replicas": str(MIN_IN_SYNC)}

    def __init__(self, name: str, nodes: Mapping[int, Node], *, zookeeper: ServerProcess | None = None) -> None:
        self.name = name
        self.nodes = nodes
        self.replicas = len(nodes)
        self.zookeeper = zookeeper

    @property
    def pids(self) -> tuple[int, ...]:
        return tuple(node.broker.pid for node in self.nodes.values() if node.broker is not None and node.is_running)

    @property
    def coordination_pids(self) -> tuple[int, ...]:
        return () if self.zookeeper is None else (self.zookeeper.pid,)

    @property
    def bootstrap_servers(self) -> str:
        return ",".join(f"127.0.0.1:{node.port}" for node in self.nodes.values())

    @property
    def is_running(self) -> bool:
        return all(node.is_running for node in self.nodes.values())

    @property
    def running_ids(self) -> list[int]:
        return [node_id for node_id, node in self.nodes.items() if node.is_running]

    def start_all(self) -> None:
        """Start every node, and return when each of them knows all the others."""
        with ThreadPoolExecutor(len(self.nodes)) as pool:
            list(pool.map(self.start_node, self.nodes))
        self._await_members()

    def start_node(self, node_id: int) -> Broker:
        """Start one node where it was; returns when it answers, which is before the others count it as in sync."""
        node = self.nodes[node_id]
        node.broker = node.peer.start(node.directory, port=node.port)
        return node.broker

    def kill_node(self, node_id: int) -> None:
        """Kill one node with SIGKILL."""
        self.broker(node_id).kill()

    def stop_node(self, node_id: int) -> float:
        """Stop one node cleanly; the seconds it took."""
        return self.broker(node_id).stop()

    def broker(self, node_id: int) -> Broker:
        """The broker of a node."""
        broker = self.nodes[node_id].broker
        assert broker is not None, "it was never started"
        return broker

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
            len(view) == partitions and all(one.leader in self.nodes and len(one.in_sync) == self.replicas for one in view.values())
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
        for node in self.nodes.values():
            if node.broker is not None:
                node.broker.kill()
        if self.zookeeper is not None:
            self.zookeeper.kill()

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

    def __init__(self, *, node_ids: Sequence[int] = NODE_IDS, session_timeout_ms: int = SESSION_TIMEOUT_MS) -> None:
        self.node_ids = node_ids
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

    def make_nodes(self, directory: Path, peers: Mapping[int, Peer]) -> dict[int, Node]:
        return {node_id: Node(peer, directory / f"node-{node_id}", free_port()) for node_id, peer in peers.items()}
