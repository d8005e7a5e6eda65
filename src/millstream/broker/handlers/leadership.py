"""ElectLeaders (43), AlterPartitionReassignments (45), ListPartitionReassignments (46): who leads a partition and who keeps it.

ElectLeaders 0-2. 1: kind of election (KIP-460), an error of its own for the whole. AlterPartitionReassignments 0-1 (KIP-455). 1: whether
the number of replicas may change. ListPartitionReassignments 0.

A partition stays on the broker that it was created on: there is no replication yet. So the preferred replica leads wherever it lives, a
reassignment to the present replicas is done at once and any other is refused, and none is ever under way.
"""

from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING

from millstream.admin_errors import ElectionNotNeeded, EligibleLeadersNotAvailable, NoReassignmentInProgress, PreferredLeaderNotAvailable
from millstream.broker.failures import as_kafka_error, error_fields
from millstream.broker.network.api import Fields, Request, api
from millstream.cluster.placement import check_assignment
from millstream.coordination.cluster_view import ClusterView
from millstream.coordination.partition_state import NO_LEADER, PartitionState
from millstream.errors import InvalidReplicaAssignment, InvalidRequest, KafkaError, UnknownTopicOrPartition
from millstream.wire.api import ApiKey

if TYPE_CHECKING:
    from millstream.wire.requests.alter_partition_reassignments import AlterPartitionReassignmentsRequest
    from millstream.wire.requests.elect_leaders import ElectLeadersRequest

PREFERRED = 0
UNCLEAN = 1


class LeadershipFamily:
    """Answers from the current view."""

    def __init__(self, view: Callable[[], ClusterView]) -> None:
        self._view = view

    @api(ApiKey.ELECT_LEADERS, 0, 2)
    def elect_leaders(self, request: Request) -> Fields:
        """Say of each partition why no other leader is elected."""
        message: ElectLeadersRequest = request.decode()
        kind = message.election_type
        if kind not in (PREFERRED, UNCLEAN):
            return {"error_code": InvalidRequest.code, "replica_election_results": []}
        if message.topic_partitions is None:
            # All partitions: Kafka names every topic, and of its partitions only those for which there was something to do.
            results = [
                self._election(name, (index for index, state in enumerate(topic.partitions) if not _is_led(state, kind)), kind)
                for name, topic in self._view().topics.items()
            ]
        else:
            results = [self._election(topic.topic, topic.partitions, kind) for topic in message.topic_partitions]
        return {"error_code": 0, "replica_election_results": results}

    def _election(self, topic: str, partitions: Iterable[int], kind: int) -> Fields:
        outcomes = [{"partition_id": index, **error_fields(self._why_not_elected(topic, index, kind))} for index in partitions]
        return {"topic": topic, "partition_result": outcomes}

    def _why_not_elected(self, topic: str, index: int, kind: int) -> KafkaError:
        try:
            state = self._partition(topic, index)
        except UnknownTopicOrPartition as error:
            return error
        if _is_led(state, kind):
            return ElectionNotNeeded(f"{topic}-{index} is led by broker {state.leader} already")
        if kind == UNCLEAN:
            return EligibleLeadersNotAvailable(f"no replica of {topic}-{index} is alive: {list(state.replicas)}")
        return PreferredLeaderNotAvailable(f"broker {state.replicas[0]}, which {topic}-{index} is on, is not alive")

    @api(ApiKey.ALTER_PARTITION_REASSIGNMENTS, 0, 1)
    def alter_partition_reassignments(self, request: Request) -> Fields:
        """Accept the replicas that a partition has, refuse all others."""
        message: AlterPartitionReassignmentsRequest = request.decode()
        responses = []
        for topic in message.topics:
            partitions = [
                {"partition_index": one.partition_index, **self._reassignment(topic.name, one.partition_index, one.replicas)}
                for one in topic.partitions
            ]
            responses.append({"name": topic.name, "partitions": partitions})
        may_change = message.allow_replication_factor_change
        return {**error_fields(None), "allow_replication_factor_change": may_change, "responses": responses}

    def _reassignment(self, topic: str, index: int, replicas: Sequence[int] | None) -> dict[str, object]:
        try:
            state = self._partition(topic, index)
            if replicas is None:
                raise NoReassignmentInProgress(f"{topic}-{index} is not being moved")
            check_assignment({index: replicas}, list(self._view().brokers), first_partition=index)
            if tuple(replicas) != state.replicas:
                raise InvalidReplicaAssignment(f"{topic}-{index} stays on {list(state.replicas)}: partitions cannot be moved or copied yet")
        except Exception as error:
            return error_fields(as_kafka_error(error))
        return error_fields(None)

    @api(ApiKey.LIST_PARTITION_REASSIGNMENTS, 0, 0)
    def list_partition_reassignments(self, request: Request) -> Fields:
        """None: no partition is ever being moved."""
        request.decode()
        return {**error_fields(None), "topics": []}

    def _partition(self, topic: str, index: int) -> PartitionState:
        found = self._view().topics.get(topic)
        if found is None:
            raise UnknownTopicOrPartition(f"topic {topic!r} does not exist")
        if not 0 <= index < len(found.partitions):
            raise UnknownTopicOrPartition(f"topic {topic!r} has no partition {index}")
        return found.partitions[index]


def _is_led(state: PartitionState, kind: int) -> bool:
    """Whether the partition has the leader that an election of this kind is for: the preferred one, or any."""
    return state.leader == state.replicas[0] if kind == PREFERRED else state.leader != NO_LEADER
