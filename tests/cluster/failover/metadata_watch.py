"""One who compares what the brokers say about leaders."""

from typing import Any

from tests.brokers import Broker
from tests.cluster.brokers import Brokers, NotHealthy
from tests.cluster.failover.worker import ThreadWorker
from tests.connection import METADATA


class MetadataWatch(ThreadWorker):
    """Asks every broker for the leaders: none may go back to an older leader epoch, and no epoch has two leaders."""

    is_producer = False

    def __init__(self, name: str, topic: str, cluster: Brokers[Broker]) -> None:
        super().__init__(name, topic)
        self._cluster = cluster
        self._epochs: dict[tuple[int, int], int] = {}
        self._leaders: dict[tuple[int, int], int] = {}

    def work(self) -> None:
        request = {"topics": [{"name": self.topic, "topic_id": None}], "allow_auto_topic_creation": False}
        while self.is_wanted:
            for node_id in self._cluster.nodes:
                try:
                    answer = self._cluster.ask(METADATA, 12, request, asked=node_id)
                except (NotHealthy, AssertionError):
                    continue
                for partition in answer.topics[0].partitions:
                    self._compare(node_id, partition)
            self.pause()

    def _compare(self, node_id: int, found: Any) -> None:
        number, epoch, leader = found.partition_index, found.leader_epoch, found.leader_id
        last = self._epochs.get((node_id, number), 0)
        if epoch < last:
            self.errors.append(f"broker {node_id} went back from epoch {last} to {epoch} of partition {number}")
        self._epochs[node_id, number] = epoch
        if leader >= 0 and self._leaders.setdefault((number, epoch), leader) != leader:
            self.errors.append(f"epoch {epoch} of partition {number} has two leaders")
        self.noted(number, -1, epoch)
