"""What a client test on one living broker cannot show: partitions without their leader, and replicas that could be elsewhere."""

from uuid import uuid4

import pytest

from millstream.admin_errors import ElectionNotNeeded, EligibleLeadersNotAvailable, PreferredLeaderNotAvailable
from millstream.broker.handlers.leadership import PREFERRED, UNCLEAN, LeadershipFamily
from millstream.coordination.cluster_view import BrokerState, ClusterView, TopicState
from millstream.coordination.partition_state import NO_LEADER, PartitionState
from millstream.errors import InvalidReplicaAssignment
from millstream.wire.api import ApiKey
from tests.unit.broker.handlers.desk import Desk

LED = PartitionState.first((1,))
HEADLESS = PartitionState(replicas=(2,), leader=NO_LEADER, leader_epoch=3, in_sync_replicas=(2,))
BY_ANOTHER = PartitionState(replicas=(2, 1), leader=1, leader_epoch=3, in_sync_replicas=(1,))
TOPIC = TopicState(name="t", topic_id=uuid4(), partitions=(LED, HEADLESS, BY_ANOTHER))
VIEW = ClusterView(brokers={number: BrokerState(number, "host", 9092) for number in (1, 3)}, topics={"t": TOPIC})


@pytest.fixture
def family() -> LeadershipFamily:
    return LeadershipFamily(lambda: VIEW)


@pytest.mark.parametrize(
    ("kind", "codes"),
    [
        (PREFERRED, [ElectionNotNeeded.code, PreferredLeaderNotAvailable.code, PreferredLeaderNotAvailable.code]),
        (UNCLEAN, [ElectionNotNeeded.code, EligibleLeadersNotAvailable.code, ElectionNotNeeded.code]),
    ],
)
async def test_election_says_who_is_missing(desk: Desk, family: LeadershipFamily, kind: int, codes: list[int]) -> None:
    asked = {"election_type": kind, "topic_partitions": [{"topic": "t", "partitions": [0, 1, 2]}]}
    answer = await desk.ask(family.elect_leaders, ApiKey.ELECT_LEADERS, 2, **asked)
    assert [one.error_code for one in answer.replica_election_results[0].partition_result] == codes
    everything = await desk.ask(family.elect_leaders, ApiKey.ELECT_LEADERS, 2, election_type=kind, topic_partitions=None)
    named = [one.partition_id for one in everything.replica_election_results[0].partition_result]
    assert named == [index for index, code in enumerate(codes) if code != ElectionNotNeeded.code]


async def test_move_to_another_living_broker_is_refused_with_where_it_stays(desk: Desk, family: LeadershipFamily) -> None:
    topics = [{"name": "t", "partitions": [{"partition_index": 0, "replicas": [3]}]}]
    answer = await desk.ask(family.alter_partition_reassignments, ApiKey.ALTER_PARTITION_REASSIGNMENTS, 1, topics=topics)
    (partition,) = answer.responses[0].partitions
    assert partition.error_code == InvalidReplicaAssignment.code
    assert "t-0 stays on [1]" in partition.error_message
