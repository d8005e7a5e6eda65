"""The internal topic of a coordinator: it is created when a coordinator is first looked for, and its leaders are the coordinators."""

import logging
from collections.abc import Callable
from typing import Any, Final

from millstream.broker.cluster.topics_on_demand import TopicsOnDemand, WantedTopic
from millstream.broker.coordinators.runtime import CoordinatorRuntime
from millstream.broker.network.api import Request
from millstream.coordination.cluster_view import BrokerState, ClusterView
from millstream.errors import CoordinatorNotAvailable, KafkaError

logger = logging.getLogger(__name__)

CREATION_TIMEOUT_MS: Final = 10_000


class CoordinatorTopic:
    """Creates the topic, and finds the broker that coordinates a key."""

    def __init__(
        self, title: str, runtime: CoordinatorRuntime[Any], on_demand: TopicsOnDemand, *, wanted: Callable[[], WantedTopic]
    ) -> None:
        """`title` is what the topic is called in sentences, `wanted` how it would be created now."""
        self._title = title
        self._runtime = runtime
        self._on_demand = on_demand
        self._wanted = wanted

    @property
    def name(self) -> str:
        """What it is called."""
        return self._runtime.topic

    @property
    def is_ready(self) -> bool:
        """Whether the topic exists."""
        return self._runtime.is_ready

    async def create(self, request: Request) -> None:
        """Create the topic for the client of a request; CoordinatorNotAvailable if that is impossible."""
        topic = self._wanted()
        try:
            errors = await self._on_demand.create(request, [topic], timeout_ms=CREATION_TIMEOUT_MS)
        except KafkaError as refusal:
            errors = {topic.name: refusal}
        if topic.name in errors:
            logger.error("%s cannot be created: %s", self._title, errors[topic.name])
            raise CoordinatorNotAvailable(f"{self._title} cannot be created: {errors[topic.name]}")

    def coordinator_of(self, key: str, view: ClusterView, *, node_id: int) -> BrokerState:
        """The broker that coordinates a key: the leader of its partition. CoordinatorNotAvailable if there is none.

        If it is this broker, of number `node_id`, its log has to be usable, too.
        """
        topic = view.topics.get(self.name)
        if topic is None or not self.is_ready:
            raise CoordinatorNotAvailable(f"{self._title} does not exist yet")
        index = self._runtime.partition_of(key)
        broker = view.brokers.get(topic.partitions[index].leader)
        if broker is None:
            raise CoordinatorNotAvailable(f"{topic.name}-{index}, where the state is kept, has no leader for now")
        if broker.node_id == node_id:
            self._runtime.check_available(key)
        return broker


def replicas_of(wanted: int, view: ClusterView) -> int:
    """How many replicas an internal topic gets: as many as wanted, or as there are brokers. Kafka would refuse to create it.

    The controller adds the others when they come.
    """
    return max(1, min(wanted, len(view.brokers)))
