"""The broker processes of a rig: Millstream on ZooKeeper, and Apache Kafka 4.2 with its own controllers, both behind proxies.

Where clients and other brokers connect (`advertised_port`, the voters, ZooKeeper's addresses) is always a proxy; where a process listens is
known only to its proxy and to the rig, which looks at brokers directly.
"""

import sys
from collections.abc import Mapping
from pathlib import Path

from tests.brokers import KafkaBroker, MillstreamBroker
from tests.cluster.server_process import free_port
from tests.connection import METADATA, ConnectionEnded


class MillstreamNode(MillstreamBroker):
    """`millstream serve` as one of several."""

    def __init__(self, directory: Path, options: Mapping[str, object], *, node_id: int) -> None:
        super().__init__(directory, options)
        self.port = free_port()
        self.node_id = node_id
        self.advertised_port = 0
        self.zookeeper = ""

    def _command(self) -> list[str]:
        command = [str(Path(sys.executable).with_name("millstream")), "serve", "--no-registry", "--data", str(self.data)]
        command += ["--node-id", str(self.node_id), "--listen", f"{self.host}:{self.port}"]
        command += ["--advertise", f"{self.host}:{self.advertised_port}", "--zookeeper", self.zookeeper]
        for name, value in self.options.items():
            command += ["-X", f"{name}={value}"]
        return command

    def _is_ready(self) -> bool:
        return any(line.startswith("ready:") for line in self._stdout().read_text(errors="replace").splitlines(keepends=True))


class KafkaNode(KafkaBroker):
    """Kafka in combined mode: a broker, and a voter among the controllers."""

    def __init__(self, directory: Path, options: Mapping[str, object], *, node_id: int) -> None:
        super().__init__(directory, options)
        self.port, self.controller_port = free_port(), free_port()
        self.node_id = node_id

    def configure(self, *, advertised_port: int, voters: str) -> None:
        """Written once, before the first start."""
        listeners = f"PLAINTEXT://{self.host}:{self.port},CONTROLLER://{self.host}:{self.controller_port}"
        self.options |= {
            "node.id": str(self.node_id),
            "listeners": listeners,
            "advertised.listeners": f"PLAINTEXT://{self.host}:{advertised_port}",
            "controller.quorum.voters": voters,
            "log.dirs": str(self.data),
        }
        self._write_properties(self.controller_port)

    def _is_ready(self) -> bool:
        try:
            with self.connect(timeout_s=5) as connection:
                return any(broker.node_id == self.node_id for broker in connection.ask(METADATA, 12, {"topics": []}).brokers)
        except (OSError, ConnectionEnded):
            return False
