"""What a client test on one living broker cannot show: partitions without their leader, and replicas that could be elsewhere."""

import asyncio
from collections.abc import AsyncIterator

import pytest

from millstream.admin_errors import ElectionNotNeeded, EligibleLeadersNotAvailable, PreferredLeaderNotAvailable
from millstream.broker.cluster.active_controller import ActiveController
from millstream.broker.handlers.leadership import PREFERRED, UNCLEAN, LeadershipFamily
from millstream.cluster.leader_election import ElectionRules
from millstream.coordination.election import ControllerClaim
from millstream.coordination.partition_state import NO_LEADER, PartitionState
from millstream.errors import InvalidReplicaAssignment, NotController, UnknownTopicOrPartition
from millstream.topic_partition import TopicPartition
from millstream.wire.api import ApiKey
from tests.unit.broker.cluster.metadata_tree import FakeTree
from tests.unit.broker.handlers.desk import Desk

LED = PartitionState.first((1,))
HEADLESS = PartitionState(replicas=(2,), leader=NO_LEADER, leader_epoch=3, in_sync_replicas=(2,))
BY_ANOTHER = PartitionState(replicas=(2, 1), leader=1, leader_epoch=3, in_sync_replicas=(1,))
STATES = {TopicPartition("t", number): state for number, state in enumerate((LED, HEADLESS, BY_ANOTHER))}


@pytest.fixture
async def tree() -> FakeTree:
    tree = FakeTree(STATES, {1: 1, 2: 2, 3: 3})
    tree.register(1, 1)
    tree.register(3, 3)
    return tree


@pytest.fixture
async def family(tree: FakeTree) -> AsyncIterator[LeadershipFamily]:
    active = ActiveController(tree, rules=lambda _topic: ElectionRules(), own_topics=dict, doubt=lambda: None)
    active.view_changed(tree.view())
    active.elected(ControllerClaim(1, 1, 1))
    running = asyncio.create_task(active.run())
    yield LeadershipFamily(tree.view, active)
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)


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


async def test_the_preferred_leader_is_elected_when_it_is_in_sync(desk: Desk, tree: FakeTree, family: LeadershipFamily) -> None:
    tree.states[TopicPartition("t", 2)] = BY_ANOTHER._replace(in_sync_replicas=(1, 2), partition_epoch=1)
    tree.register(2, 2)
    family._active.view_changed(tree.view())
    asked = {"election_type": PREFERRED, "topic_partitions": [{"topic": "t", "partitions": [2, 9]}], "timeout_ms": 5000}
    answer = await desk.ask(family.elect_leaders, ApiKey.ELECT_LEADERS, 2, **asked)
    assert [one.error_code for one in answer.replica_election_results[0].partition_result] == [0, UnknownTopicOrPartition.code]
    assert tree.states[TopicPartition("t", 2)].leader == 2


async def test_a_broker_that_is_not_the_controller_says_so(desk: Desk, family: LeadershipFamily) -> None:
    family._active.resigned()
    answer = await desk.ask(family.elect_leaders, ApiKey.ELECT_LEADERS, 2, election_type=PREFERRED, topic_partitions=None)
    assert answer.error_code == NotController.code
