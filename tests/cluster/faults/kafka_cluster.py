"""Apache Kafka 4.2 as the control: three nodes, each broker and controller, whose votes go through proxies like everything else."""

from concurrent.futures import ThreadPoolExecutor

from tests.cluster.faults.cluster import NODE_IDS, Cluster, NotHealthy, broker_name, place_of
from tests.cluster.faults.network import Link
from tests.cluster.faults.nodes import KafkaNode
from tests.connection import DESCRIBE_QUORUM


class KafkaCluster(Cluster):
    """Its coordination is in the same processes: to cut a broker from it is to cut both parts of the node from the other controllers."""

    peer = "kafka"

    def controller(self) -> int:
        """The leader of the metadata quorum; Metadata names any broker."""
        request = {"topics": [{"topic_name": "__cluster_metadata", "partitions": [{"partition_index": 0}]}]}
        answer = self.ask(DESCRIBE_QUORUM, 2, request)
        if answer.error_code != 0:
            raise NotHealthy(f"no controller: error {answer.error_code}")
        return int(answer.topics[0].partitions[0].leader_id)

    def coordination_links(self, node_id: int) -> list[Link]:
        others = [other for other in NODE_IDS if other != node_id]
        opened = [Link(broker_name(node_id), _controller_name(other)) for other in others]
        return opened + [Link(broker_name(other), _controller_name(node_id)) for other in others]

    def _build(self) -> None:
        nodes = {node_id: KafkaNode(place_of(self, node_id), self._options(), node_id=node_id) for node_id in NODE_IDS}
        self.nodes.update(nodes)
        self.proxy_ports = {node_id: self.network.add(broker_name(node_id), node.port) for node_id, node in nodes.items()}
        controllers = {node_id: self.network.add(_controller_name(node_id), node.controller_port) for node_id, node in nodes.items()}
        voters = ",".join(f"{node_id}@127.0.0.1:{port}" for node_id, port in controllers.items())
        for node_id, node in nodes.items():
            if node_id in self.disks:
                node.data = self.disks[node_id].path / "data"
            node.configure(advertised_port=self.proxy_ports[node_id], voters=voters)
        with ThreadPoolExecutor() as threads:
            for formatted in [threads.submit(node.format) for node in nodes.values()]:
                formatted.result()

    def _options(self) -> dict[str, object]:
        session_ms = round(self.session_timeout_s * 1000)
        return {
            "broker.session.timeout.ms": session_ms,
            "broker.heartbeat.interval.ms": session_ms // 4,
            "replica.lag.time.max.ms": session_ms,
            "default.replication.factor": 3,
            "min.insync.replicas": 2,
            "offsets.topic.replication.factor": 3,
            "offsets.topic.num.partitions": 3,
            "transaction.state.log.replication.factor": 3,
            "transaction.state.log.min.isr": 2,
            "num.recovery.threads.per.data.dir": 1,
        }


def _controller_name(node_id: int) -> str:
    return f"controller-{node_id}"
