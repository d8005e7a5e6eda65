"""A broker that keeps its znodes in a real ZooKeeper, each in a part of the tree of its own."""

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
        super().__init__(directory, {}, node_id=node_id, zookeeper=f"{zookeeper}/millstream-{uuid4().hex[:8]}/tests")
        self.flags += [] if credentials is None else ["--zookeeper-credentials", str(credentials)]


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
