"""Three broker processes that clients reach without a proxy between: a broker that is gone refuses connections, as it does in life.

Their znodes are in a real ZooKeeper where there is one, else in ours as a process of its own, so that no broker takes the tree with it.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.brokers import IS_KAFKA
from tests.cluster.faults.cluster import NODE_IDS, Cluster, place_of
from tests.cluster.faults.kafka_cluster import KafkaCluster
from tests.cluster.faults.network import Link
from tests.cluster.faults.nodes import MillstreamNode
from tests.cluster.server_process import ServerProcess, free_port, missing_zookeeper
from tests.connection import METADATA

SESSION_TIMEOUT_MS = 3000


class ThreeBrokers(Cluster):
    """Millstream."""

    peer = "millstream"

    def controller(self) -> int:
        return int(self.ask(METADATA, 12, {"topics": []}).controller_id)

    def coordination_links(self, node_id: int) -> list[Link]:
        return []

    def move(self, node_id: int) -> None:
        """A broker that does not run will come back on another port."""
        node = self.nodes[node_id]
        assert isinstance(node, MillstreamNode)
        node.port = node.advertised_port = self.proxy_ports[node_id] = free_port()

    def _build(self) -> None:
        place = self.directory / "coordination"
        (place / "data").mkdir(parents=True)
        self.coordination = ServerProcess("embedded" if missing_zookeeper() else "zookeeper", place)
        self.stack.callback(self.coordination.kill)
        self.coordination.start()
        self.reaper.watch(self.coordination.pid)
        for node_id in NODE_IDS:
            node = MillstreamNode(place_of(self, node_id), self._options(), node_id=node_id)
            node.zookeeper = self.zookeeper
            node.advertised_port = self.proxy_ports[node_id] = node.port
            self.nodes[node_id] = node

    @property
    def zookeeper(self) -> str:
        """Where the znodes of the cluster are."""
        return f"{self.coordination.address}/clients"

    def _options(self) -> dict[str, object]:
        return {
            "zookeeper.session.timeout.ms": round(self.session_timeout_s * 1000),
            "replica.lag.time.max.ms": round(self.session_timeout_s * 1000),
            "min.insync.replicas": 2,
            "offsets.topic.num.partitions": 6,
            "group.initial.rebalance.delay.ms": 0,
            "auto.create.topics.enable": "false",
        }


class ThreeKafkas(KafkaCluster):
    """Apache Kafka, where the tests are run against it."""

    def _options(self) -> dict[str, object]:
        return super()._options() | {"auto.create.topics.enable": "false", "group.initial.rebalance.delay.ms": 0}


@contextmanager
def three_brokers(directory: Path) -> Iterator[Cluster]:
    """Running, and ended whatever happens."""
    kind = ThreeKafkas if IS_KAFKA else ThreeBrokers
    with kind(directory, session_timeout_ms=SESSION_TIMEOUT_MS) as cluster:
        yield cluster
