"""Apache Kafka 4.2: KRaft, broker and controller in one process, with the collector flags of Kafka's own start script; one node or three.

The jars come from Maven once, into a git-ignored cache. Without Java, or without Maven and a filled cache, there is no Kafka to
compare with, and the benchmark says so instead of failing.
"""

import shutil
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path

from bench.case import BenchError
from bench.maven import fetch_jars
from bench.peers.broker import Peer, free_port
from bench.peers.cluster import MIN_IN_SYNC, NODE_IDS, SESSION_TIMEOUT_MS, Cluster, ClusterKind

VERSION = "4.2.0"
CACHE = Path(__file__).parents[2] / ".cache" / f"kafka-{VERSION}"
CLUSTER_ID = "MkU3OEVBNTcwNTJENDM2Qk"

POM = f"""\
<project xmlns="http://maven.apache.org/POM/4.0.0">
  <modelVersion>4.0.0</modelVersion>
  <groupId>millstream.bench</groupId><artifactId>kafka</artifactId><version>1</version>
  <dependencies>
    <dependency><groupId>org.apache.kafka</groupId><artifactId>kafka_2.13</artifactId><version>{VERSION}</version></dependency>
    <dependency><groupId>org.apache.kafka</groupId><artifactId>kafka-tools</artifactId><version>{VERSION}</version></dependency>
  </dependencies>
</project>
"""

JVM_FLAGS = (
    "-server",
    "-XX:+UseG1GC",
    "-XX:MaxGCPauseMillis=20",
    "-XX:InitiatingHeapOccupancyPercent=35",
    "-XX:+ExplicitGCInvokesConcurrent",
    "-Djava.awt.headless=true",
)
HEAP = "1G"
"""What Kafka's own start script gives a broker."""
CLUSTER_HEAP = "512m"
"""What each of three brokers gets that share one small machine."""


class Kafka(Peer):
    """One node of Kafka from a directory of jars. `voters`: the controller ports of all nodes by id; by default this node is alone."""

    name = "kafka"

    def __init__(
        self,
        jars: Path,
        *,
        node_id: int = 1,
        voters: Mapping[int, int] | None = None,
        heap: str = HEAP,
        properties: Mapping[str, str] | None = None,
    ) -> None:
        self.jars = jars
        self.node_id = node_id
        self.voters = voters
        self.heap = heap
        self.properties = properties or {}

    def format(self, directory: Path, port: int) -> None:
        super().format(directory, port)
        voters = self.voters or {self.node_id: free_port()}
        properties = {**_base_properties(self.node_id, port, directory=directory, voters=voters), **self.properties}
        _properties_of(directory).write_text("".join(f"{name}={value}\n" for name, value in properties.items()))
        tool = self._java("kafka.tools.StorageTool", "format", "-t", CLUSTER_ID, "-c", str(_properties_of(directory)))
        finished = subprocess.run(tool, check=False, capture_output=True, text=True, timeout=120)
        if finished.returncode != 0:
            raise BenchError(f"Kafka's storage could not be formatted: {finished.stdout[-500:]} {finished.stderr[-500:]}")

    def command(self, directory: Path, port: int) -> Sequence[str]:
        return self._java("kafka.Kafka", str(_properties_of(directory)), "--override", f"listeners={self._listeners(directory, port)}",
                          "--override", f"advertised.listeners=PLAINTEXT://127.0.0.1:{port}")  # fmt: skip

    def _listeners(self, directory: Path, port: int) -> str:
        """The properties' listeners with the client port replaced: a restart may use another port, the controller's stays."""
        lines = dict(line.split("=", 1) for line in _properties_of(directory).read_text().splitlines())
        return f"PLAINTEXT://127.0.0.1:{port},{lines['listeners'].split(',')[1]}"

    def _java(self, main_class: str, *arguments: str) -> list[str]:
        return ["java", f"-Xmx{self.heap}", f"-Xms{self.heap}", *JVM_FLAGS, "-cp", f"{self.jars}/*", main_class, *arguments]


class KafkaCluster(ClusterKind):
    """Three nodes, each broker and controller: the smallest Kafka that survives the loss of any one process."""

    name = "kafka"

    def __init__(
        self,
        jars: Path,
        *,
        node_ids: Sequence[int] = NODE_IDS,
        session_timeout_ms: int = SESSION_TIMEOUT_MS,
        heap: str = CLUSTER_HEAP,
        properties: Mapping[str, str] | None = None,
    ) -> None:
        super().__init__(node_ids=node_ids, session_timeout_ms=session_timeout_ms)
        self.jars = jars
        self.heap = heap
        self.properties = properties or {}

    def build(self, directory: Path) -> Cluster:
        voters = {node_id: free_port() for node_id in self.node_ids}
        properties = {**_replication_properties(len(voters), session_timeout_ms=self.session_timeout_ms), **self.properties}
        peers = {
            node_id: Kafka(self.jars, node_id=node_id, voters=voters, heap=self.heap, properties=properties) for node_id in self.node_ids
        }
        return Cluster(self.name, self.make_nodes(directory, peers))


def _base_properties(node_id: int, port: int, *, directory: Path, voters: Mapping[int, int]) -> dict[str, str]:
    return {
        "process.roles": "broker,controller",
        "node.id": str(node_id),
        "listeners": f"PLAINTEXT://127.0.0.1:{port},CONTROLLER://127.0.0.1:{voters[node_id]}",
        "advertised.listeners": f"PLAINTEXT://127.0.0.1:{port}",
        "controller.listener.names": "CONTROLLER",
        "controller.quorum.voters": ",".join(f"{voter}@127.0.0.1:{voter_port}" for voter, voter_port in voters.items()),
        "log.dirs": str(directory),
        "offsets.topic.replication.factor": "1",
        "transaction.state.log.replication.factor": "1",
        "transaction.state.log.min.isr": "1",
        "share.coordinator.state.topic.replication.factor": "1",
        "share.coordinator.state.topic.min.isr": "1",
        "group.initial.rebalance.delay.ms": "0",
    }


def _replication_properties(nodes: int, *, session_timeout_ms: int) -> dict[str, str]:
    return {
        "offsets.topic.replication.factor": str(nodes),
        "transaction.state.log.replication.factor": str(nodes),
        "transaction.state.log.min.isr": str(MIN_IN_SYNC),
        "share.coordinator.state.topic.replication.factor": str(nodes),
        "share.coordinator.state.topic.min.isr": str(MIN_IN_SYNC),
        "default.replication.factor": str(nodes),
        "min.insync.replicas": str(MIN_IN_SYNC),
        "broker.session.timeout.ms": str(session_timeout_ms),
        "broker.heartbeat.interval.ms": str(min(2000, session_timeout_ms // 3)),
    }


def _properties_of(directory: Path) -> Path:
    return directory.with_suffix(".properties")


def find_jars(cache: Path = CACHE) -> Path:
    """Kafka's jars, fetched through Maven unless the cache has them; BenchError says why not."""
    if shutil.which("java") is None:
        raise BenchError("there is no java command: install a Java runtime, 17 or newer")
    jars = cache / "libs"
    if (jars / f"kafka_2.13-{VERSION}.jar").exists():
        return jars
    return fetch_jars(cache, POM, what="Kafka")
