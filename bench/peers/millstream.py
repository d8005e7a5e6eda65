"""Millstream, through its command line: one broker with its coordination inside, or three on a real ZooKeeper."""

import sys
from collections.abc import Sequence
from pathlib import Path

from bench.case import BenchError
from bench.peers.broker import Broker, Peer
from bench.peers.cluster import NODES, SESSION_TIMEOUT_MS, Cluster, ClusterKind
from tests.cluster.brokers import MillstreamBrokers
from tests.cluster.server_process import ServerProcess, missing_zookeeper


class Millstream(Peer):
    """The `millstream` command that was installed beside the running Python."""

    name = "millstream"

    def __init__(self, options: Sequence[str] = (), *, zookeeper: str | None = None) -> None:
        self.options = tuple(options)
        self.coordination = ("--coordination", "127.0.0.1:0") if zookeeper is None else ("--zookeeper", zookeeper)

    def command(self, directory: Path, port: int) -> Sequence[str]:
        executable = Path(sys.executable).with_name("millstream")
        extra = [argument for option in self.options for argument in ("-X", option)]
        return [
            str(executable),
            "serve",
            "--listen",
            f"127.0.0.1:{port}",
            *self.coordination,
            "--data",
            str(directory),
            *extra,
        ]


class MillstreamCluster(ClusterKind):
    """Three brokers and a real ZooKeeper, which keeps its promises to the disk (one server: an ensemble would only take CPU from all)."""

    name = "millstream"

    def __init__(self, options: Sequence[str] = (), *, nodes: int = NODES, session_timeout_ms: int = SESSION_TIMEOUT_MS) -> None:
        super().__init__(nodes=nodes, session_timeout_ms=session_timeout_ms)
        self.options = dict(option.split("=", 1) for option in options)

    def build(self, directory: Path) -> Cluster:
        if (reason := missing_zookeeper()) is not None:
            raise BenchError(reason)
        zookeeper = ServerProcess("zookeeper", directory, is_durable=True)
        zookeeper.start()
        brokers = MillstreamBrokers(
            directory, self.options, zookeeper=zookeeper.address, count=self.nodes, session_timeout_ms=self.session_timeout_ms
        )
        return Cluster(self.name, brokers, zookeeper=zookeeper)


def coordination_of(broker: Broker) -> str:
    """Where the znodes of a running Millstream are, from its ready line."""
    for line in broker.output.read_text(errors="replace").splitlines():
        if line.startswith("ready:"):
            words = line.split()
            return words[words.index("coordination") + 1]
    raise BenchError(f"{broker.name} has no ready line, or no coordination")
