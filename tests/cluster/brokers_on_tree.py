"""Three brokers as processes on one tree of znodes; a broker that is killed loses its session when the test says so."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tests.cluster.tree_in_thread import TreeInThread
from tests.connection import METADATA
from tests.topics import create_assigned_topic
from tests.waiting import wait_until
from tests.zookeeper_broker import ZooKeeperBroker


class Cluster:
    """The tree and the brokers 1 to 3."""

    def __init__(self, tree: TreeInThread, brokers: dict[int, ZooKeeperBroker]) -> None:
        self.tree = tree
        self.brokers = brokers

    def broker(self, node_id: int) -> ZooKeeperBroker:
        return self.brokers[node_id]

    def kill(self, *node_ids: int) -> None:
        """kill -9, and the end of the sessions."""
        for node_id in node_ids:
            self.broker(node_id).kill()
        for node_id in node_ids:
            self.tree.expire(f"/cluster/brokers/ids/{node_id}")

    def start(self, *node_ids: int) -> None:
        for node_id in node_ids:
            self.broker(node_id).start()
        self.settle()

    def settle(self) -> None:
        """Wait until every broker knows all that run, and the controller has dealt with them."""
        running = {node_id for node_id, broker in self.brokers.items() if broker.is_running}
        for node_id in running:
            with self.broker(node_id).connect() as connection:
                wait_until(
                    lambda connection=connection: {one.node_id for one in connection.ask(METADATA, 12, {"topics": []}).brokers} == running,  # type: ignore[misc]
                    f"broker {node_id} knows {running}",
                )
        wait_until(lambda: all(self.life(node_id) == self.epoch(node_id) for node_id in running), "all are dealt with")

    def life(self, node_id: int) -> str:
        return self.tree.text(f"/cluster/brokers/epochs/{node_id}")

    def epoch(self, node_id: int) -> str:
        return self.tree.czxid(f"/cluster/brokers/ids/{node_id}")

    @property
    def controller(self) -> int:
        return int(str(self.tree.content("/cluster/controller")["broker_id"]))

    def state(self, topic: str, partition: int = 0) -> dict[str, Any]:
        return self.tree.content(f"/cluster/brokers/topics/{topic}/partitions/{partition}")

    def leader(self, topic: str, partition: int = 0) -> int:
        return int(self.state(topic, partition)["leader"])

    def create(self, *assignment: list[int], **configs: str) -> str:
        with self.broker(self.controller).connect() as connection:
            return create_assigned_topic(connection, *assignment, **configs)


@contextmanager
def brokers_on_tree(directory: Path) -> Iterator[Cluster]:
    """The brokers 1 to 3, that know each other."""
    tree = TreeInThread(directory / "tree")
    tree.start()
    brokers = {number: ZooKeeperBroker(directory / str(number), tree.address, node_id=number) for number in (1, 2, 3)}
    for broker in brokers.values():
        broker.coordination = f"{tree.address}/cluster"
    made = Cluster(tree, brokers)
    try:
        made.start(1, 2, 3)
        yield made
    finally:
        for broker in brokers.values():
            broker.kill()
        tree.stop()
