"""Three brokers that keep some partitions, and the controller that decides about them; the znodes are a dictionary."""

from millstream.broker.cluster.active_controller import ActiveController
from millstream.cluster.controller.leader_election import ElectionRules
from millstream.coordination.cluster_view import TopicState
from millstream.coordination.election import ControllerClaim
from millstream.coordination.partition_state import PartitionState
from millstream.topic_partition import TopicPartition
from tests.unit.broker.cluster.metadata_tree import FakeTree
from tests.waiting import eventually

ORDERS = TopicPartition("orders", 0)
CLAIM = ControllerClaim(1, 1, 1)


def rules_of(topic: TopicState) -> ElectionRules:
    return ElectionRules(int(topic.configs.get("min", "1")), allows_unclean="unclean" in topic.configs)


class Cluster:
    """Three brokers that keep some partitions, and the controller."""

    def __init__(self, partitions: int = 1) -> None:
        state = PartitionState((1, 2, 3), leader=1, leader_epoch=0, in_sync_replicas=(1, 2, 3))
        self.tree = FakeTree({TopicPartition("orders", number): state for number in range(partitions)}, {1: 11, 2: 12, 3: 13})
        for node_id in (1, 2, 3):
            self.tree.register(node_id, 10 + node_id)
        self.own_topics: dict[str, int] = {}
        self.doubts = 0
        self.controller = ActiveController(self.tree, rules=rules_of, own_topics=lambda: self.own_topics, doubt=self._doubt)
        self.view_of_all = self.tree.view()
        self.controller.view_changed(self.view_of_all)

    def _doubt(self) -> None:
        self.doubts += 1

    def show(self) -> None:
        self.controller.view_changed(self.tree.view())

    async def elect(self) -> None:
        self.controller.elected(CLAIM)
        await eventually(lambda: self.controller._term is not None and self.controller._term.view is not None)

    async def lose(self, *node_ids: int) -> None:
        for node_id in node_ids:
            del self.tree.brokers[node_id]
        self.show()

    @property
    def orders(self) -> PartitionState:
        return self.tree.states[ORDERS]
