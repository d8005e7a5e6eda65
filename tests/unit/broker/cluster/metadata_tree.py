"""The znodes of a cluster as a dictionary: what a controller reads and writes, with the failures that a real tree has."""

import asyncio
from collections.abc import Iterable, Mapping
from dataclasses import replace
from uuid import NAMESPACE_DNS, UUID, uuid5

from millstream.coordination.cluster_view import BrokerState, ClusterView, TopicState
from millstream.coordination.partition_state import PartitionState
from millstream.errors import NotController
from millstream.topic_partition import TopicPartition
from millstream.zookeeper.errors import BadVersion, NoNode


def topic_id_of(name: str) -> UUID:
    """The id that the topic has here."""
    return uuid5(NAMESPACE_DNS, name)


class FakeTree:
    """Implements `ControllerTree`."""

    def __init__(self, states: Mapping[TopicPartition, PartitionState], lives: Mapping[int, int]) -> None:
        self.states = dict(states)
        self.lives = dict(lives)
        self.brokers: dict[int, BrokerState] = {}
        self.configs: dict[str, dict[str, str]] = {}
        self.topic_ids: dict[str, UUID] = {}
        """Of topics that have been created again."""
        self.writes: list[tuple[dict[TopicPartition, PartitionState], dict[int, int]]] = []
        self.failures: list[Exception | None] = []
        """What the next writes fail with, before anything is written; None: it succeeds."""
        self.announced: list[TopicPartition] = []
        self.restored: list[TopicPartition] = []
        self.is_restoring = True
        self.is_fenced = False
        self.finished = 0
        self.caught_up = 0

    async def write_states(self, states: Mapping[TopicPartition, PartitionState], lives: Mapping[int, int] | None = None) -> None:
        await asyncio.sleep(0)
        if self.is_fenced:
            raise NotController("fenced")
        if self.failures and (failure := self.failures.pop(0)) is not None:
            raise failure
        for name, state in states.items():
            if name not in self.states:
                raise NoNode(str(name))
            if self.states[name].partition_epoch != state.partition_epoch:
                raise BadVersion(str(name))
        self.writes.append((dict(states), dict(lives or {})))
        self.states.update((name, state.read_at(state.partition_epoch + 1)) for name, state in states.items())
        self.lives.update(lives or {})

    async def read_states(self, known: Mapping[TopicPartition, PartitionState]) -> Mapping[TopicPartition, PartitionState]:
        found = {name: self.states[name] for name in known if name in self.states}
        # As the real one: what cannot be what became of a state is replaced by it.
        return {
            name: state if state.partition_epoch >= known[name].partition_epoch else known[name].read_at(state.partition_epoch)
            for name, state in found.items()
        }

    async def announce(self, names: Iterable[TopicPartition]) -> None:
        self.announced += names

    async def restore_partition(self, topic: TopicState, number: int, state: PartitionState) -> bool:
        if self.is_restoring:
            self.restored.append(TopicPartition(topic.name, number))
            self.states[TopicPartition(topic.name, number)] = state
        return self.is_restoring

    async def catch_up(self, *, timeout_ms: int) -> bool:
        self.caught_up += 1
        return timeout_ms > 0

    async def finish_half_done(self) -> None:
        self.finished += 1

    def register(self, node_id: int, epoch: int, *, previous_epoch: int = -1) -> None:
        self.brokers[node_id] = BrokerState(node_id, "localhost", 9092, epoch=epoch, previous_epoch=previous_epoch)

    def recreate(self, topic: str, state: PartitionState) -> None:
        """Another topic of that name, with as many partitions."""
        self.topic_ids[topic] = uuid5(NAMESPACE_DNS, f"{topic} again")
        self.states.update({name: state for name in self.states if name.topic == topic})

    def _topic_id(self, topic: str) -> UUID:
        return self.topic_ids.get(topic) or topic_id_of(topic)

    def view(self) -> ClusterView:
        """All of it, as a watcher would show it."""
        topics: dict[str, TopicState] = {}
        for name, state in sorted(self.states.items()):
            topic = topics.get(name.topic) or TopicState(name.topic, self._topic_id(name.topic), (), self.configs.get(name.topic, {}))
            topics[name.topic] = replace(topic, partitions=(*topic.partitions, state))
        return ClusterView(brokers=dict(self.brokers), lives=dict(self.lives), topics=topics)
