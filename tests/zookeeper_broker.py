"""A broker that keeps its znodes in a real ZooKeeper, each in a part of the tree of its own."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from uuid import uuid4

from kazoo.client import KazooClient

from tests.brokers import MillstreamBroker


class ZooKeeperBroker(MillstreamBroker):
    """`millstream serve --zookeeper` on a free port of the loopback."""

    def __init__(self, directory: Path, zookeeper: str, *, node_id: int = 1, credentials: Path | None = None) -> None:
        directory.mkdir(parents=True, exist_ok=True)
        super().__init__(directory, {})
        self.node_id = node_id
        self.credentials = [] if credentials is None else ["--zookeeper-credentials", str(credentials)]
        self.coordination = f"{zookeeper}/millstream-{uuid4().hex[:8]}/tests"

    def _command(self) -> list[str]:
        command = [str(Path(sys.executable).with_name("millstream")), "serve", "--no-registry", "--data", str(self.data), *self.credentials]
        command += ["--listen", f"{self.host}:{self.port}", "--zookeeper", self.coordination, "--node-id", str(self.node_id)]
        return command + [word for name, value in self.options.items() for word in ("-X", f"{name}={value}")]


@contextmanager
def tree_of(hosts: str) -> Iterator[KazooClient]:
    """A session in a tree of znodes, with the path below which they are."""
    client = KazooClient(hosts=hosts)
    client.start(timeout=20)
    try:
        yield client
    finally:
        client.stop()
        client.close()
