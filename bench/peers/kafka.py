"""Apache Kafka 4.2: KRaft, broker and controller in one process, with the collector flags of Kafka's own start script; one node or three.

The jars come from Maven once, into a git-ignored cache. Without Java, or without Maven and a filled cache, there is no Kafka to
compare with, and the benchmark says so instead of failing.
"""

import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path

from bench.case import BenchError
from bench.maven import fetch_jars
from bench.peers.broker import Peer
from bench.peers.cluster import NODES, SESSION_TIMEOUT_MS, Cluster, ClusterKind
from tests.cluster.brokers import KafkaBrokers
from tests.ports import free_port

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
    """One node of Kafka from a directory of jars."""

    name = "kafka"

    def __init__(self, jars: Path) -> None:
        self.jars = jars

    def format(self, directory: Path, port: int) -> None:
        super().format(directory, port)
        properties = _base_properties(port, directory=directory, controller_port=free_port())
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
        return ["java", *_jvm(HEAP), "-cp", f"{self.jars}/*", main_class, *arguments]


class KafkaCluster(ClusterKind):
    """Three nodes, each broker and controller: the smallest Kafka that survives the loss of any one process."""

    name = "kafka"

    def __init__(self, *, nodes: int = NODES, session_timeout_ms: int = SESSION_TIMEOUT_MS) -> None:
        super().__init__(nodes=nodes, session_timeout_ms=session_timeout_ms)
        find_jars()

    def build(self, directory: Path) -> Cluster:
        options = {
            "offsets.topic.num.partitions": 50,
            "log.initial.task.delay.ms": 30_000,
        }  # Kafka's defaults, which the tests' brokers change
        jvm = _jvm(CLUSTER_HEAP)
        brokers = KafkaBrokers(directory, options, count=self.nodes, session_timeout_ms=self.session_timeout_ms, jvm=jvm)
        return Cluster(self.name, brokers)


def _jvm(heap: str) -> list[str]:
    return [f"-Xmx{heap}", f"-Xms{heap}", *JVM_FLAGS]


def _base_properties(port: int, *, directory: Path, controller_port: int) -> dict[str, str]:
    return {
        "process.roles": "broker,controller",
        "node.id": "1",
        "listeners": f"PLAINTEXT://127.0.0.1:{port},CONTROLLER://127.0.0.1:{controller_port}",
        "advertised.listeners": f"PLAINTEXT://127.0.0.1:{port}",
        "controller.listener.names": "CONTROLLER",
        "controller.quorum.voters": f"1@127.0.0.1:{controller_port}",
        "log.dirs": str(directory),
        "offsets.topic.replication.factor": "1",
        "transaction.state.log.replication.factor": "1",
        "transaction.state.log.min.isr": "1",
        "share.coordinator.state.topic.replication.factor": "1",
        "share.coordinator.state.topic.min.isr": "1",
        "group.initial.rebalance.delay.ms": "0",
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
