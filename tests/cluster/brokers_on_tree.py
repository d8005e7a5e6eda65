"""Brokers on a tree of znodes in the test: one that is killed loses its session when the test says so, not after a timeout."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tests.cluster.brokers import MillstreamBrokers
from tests.cluster.tree_in_thread import TreeInThread
from tests.topics import create_assigned_topic
from tests.waiting import wait_until


class BrokersOnTree(MillstreamBrokers):
    """The brokers, and what is written about them."""

    def __init__(self, directory: Path, tree: TreeInThread, *, count: int) -> None:
        super().__init__(directory, {}, zookeeper=f"{tree.address}/cluster", count=count)
        self.tree = tree

    def kill(self, *node_ids: int) -> None:
        """kill -9, and the end of the sessions."""
        super().kill(*node_ids)
        for path in [f"/cluster/brokers/ids/{node_id}" for node_id in node_ids]:
            if path in self.tree.paths:
                self.tree.expire(path)

    def start(self, *node_ids: int) -> None:
        """Start them, and wait until all know each other and the controller has dealt with all."""
        super().start(*node_ids)
        self.await_members()
        wait_until(lambda: all(self.life(node_id) == self.epoch(node_id) for node_id in self.running_ids), "all are dealt with")

    def life(self, node_id: int) -> str:
        return self.tree.text(f"/cluster/brokers/epochs/{node_id}")

    def epoch(self, node_id: int) -> str:
        return self.tree.czxid(f"/cluster/brokers/ids/{node_id}")

    def controller(self) -> int:
        return int(str(self.tree.content("/cluster/controller")["broker_id"]))

    def state(self, topic: str, partition: int = 0) -> dict[str, Any]:
        return self.tree.content(f"/cluster/brokers/topics/{topic}/partitions/{partition}")

    def leader(self, topic: str, partition: int = 0) -> int:
        return int(self.state(topic, partition)["leader"])

    def create(self, *assignment: list[int], **configs: str) -> str:
        with self.nodes[self.controller()].connect() as connection:
            return create_assigned_topic(connection, *assignment, **configs)


@contextmanager
def brokers_on_tree(directory: Path, *, count: int = 3, flags: Mapping[int, list[str]] | None = None) -> Iterator[BrokersOnTree]:
    """Running, and ended whatever happens. `flags`: what else some are started with, by node id."""
    tree = TreeInThread(directory / "tree")
    tree.start()
    try:
        brokers = BrokersOnTree(directory, tree, count=count)
        for node_id, more in (flags or {}).items():
            brokers.nodes[node_id].flags += more
        with brokers:
            yield brokers
    finally:
        tree.stop()
