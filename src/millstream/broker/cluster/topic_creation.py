"""Creating a topic from what a client gave: defaults of the broker filled in, configs checked, limits kept.

Only the controller does that; topics that are created because a client asks for them come by `topics_on_demand`.
"""

from collections.abc import Callable, Mapping, Sequence

from millstream.broker.cluster.live_settings import LiveSettings
from millstream.cluster.controller.controller import Controller
from millstream.coordination.cluster_view import TopicState
from millstream.coordination.topic_names import INTERNAL_TOPICS, check_collision, check_name
from millstream.errors import InvalidReplicaAssignment, InvalidRequest, PolicyViolation, TopicAlreadyExists
from millstream.options.validation import validate_topic_overrides

UNSET = -1
MAX_PARTITIONS = 10_000
"""Per request, as Kafka's controller has it."""


class TopicCreation:
    """Plans and creates topics."""

    def __init__(self, controller: Controller, settings: LiveSettings, *, max_partitions_in_all: Callable[[], int]) -> None:
        self._controller = controller
        self._settings = settings
        self._max_partitions_in_all = max_partitions_in_all
        self._under_way: dict[str, int] = {}
        """Topics that are being created, with their numbers of partitions."""

    def plan(
        self,
        name: str,
        *,
        partitions: int = UNSET,
        replication_factor: int = UNSET,
        configs: Mapping[str, str],
        assignment: Sequence[tuple[int, Sequence[int]]] = (),
    ) -> TopicState:
        """The topic as it would be; raises what stands against it, in Kafka's order: the name, the configs, the numbers."""
        self.check_new(name)
        validate_topic_overrides(configs)
        settings = self._settings.current
        if assignment and (partitions != UNSET or replication_factor != UNSET):
            raise InvalidRequest("give either replica assignments or the numbers of partitions and replicas (-1 beside assignments)")
        replicas = dict(assignment)
        if len(replicas) < len(assignment):
            raise InvalidReplicaAssignment(f"topic {name!r} has a partition that is assigned twice")
        count = len(assignment) if assignment else settings.integer("num.partitions") if partitions == UNSET else partitions
        if name in INTERNAL_TOPICS:
            # There are descriptors kept for them: without them no group works.
            self.check_request(count)
        else:
            self.check_partition_count(count)
        factor = settings.integer("default.replication.factor") if replication_factor == UNSET else replication_factor
        return self._controller.plan_topic(name, partitions=count, replication_factor=factor, configs=configs, assignment=replicas or None)

    def check_new(self, name: str) -> None:
        """Raise if no topic can have the name, or one has it."""
        check_name(name)
        if name in self._controller.view.topics:
            raise TopicAlreadyExists(f"topic {name!r} already exists")
        check_collision(name, self._under_way)

    def count(self, *, partitions: int, assigned: int) -> int:
        """How many partitions a topic would get for which a client gave these numbers."""
        return assigned or (self._settings.current.integer("num.partitions") if partitions == UNSET else max(partitions, 0))

    def check_request(self, added: int) -> None:
        """Raise if so many partitions are too many for one request."""
        if added > MAX_PARTITIONS:
            raise PolicyViolation(f"{added} partitions in one request; at most {MAX_PARTITIONS} are allowed")

    def check_partition_count(self, added: int) -> None:
        """Raise if so many more partitions are too many at once, or more than this process has descriptors for."""
        self.check_request(added)
        view = self._controller.view
        present = view.partition_count
        present += sum(count for name, count in self._under_way.items() if name not in INTERNAL_TOPICS and name not in view.topics)
        limit = self._max_partitions_in_all()
        if present + added > limit:
            raise PolicyViolation(
                f"{present} partitions exist; {added} more are above the {limit} for which this process has file "
                "descriptors (raise `ulimit -n` and restart the broker)"
            )

    async def create(self, topic: TopicState, *, timeout_ms: int) -> None:
        """Create a planned topic, in the same step of the loop in which it was planned."""
        if topic.name in self._under_way:
            raise TopicAlreadyExists(f"topic {topic.name!r} is being created already")
        self._under_way[topic.name] = len(topic.partitions)
        try:
            await self._controller.create_topic(topic, timeout_ms=timeout_ms)
        finally:
            del self._under_way[topic.name]
