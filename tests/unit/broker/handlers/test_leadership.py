"""What a client test on one living broker cannot show: partitions without their leader, and replicas that go elsewhere."""

import asyncio
from collections.abc import AsyncIterator
from typing import cast

import pytest

from millstream.admin_errors import (
    ElectionNotNeeded,
    EligibleLeadersNotAvailable,
    NoReassignmentInProgress,
    PreferredLeaderNotAvailable,
)
from millstream.broker.cluster.active_controller import ActiveController
from millstream.broker.handlers.leadership import PREFERRED, UNCLEAN, LeadershipFamily
from millstream.broker.storage.loop_turns import AT_ONCE
from millstream.cluster.controller.leader_election import ElectionRules
from millstream.cluster.controller.reassignment import begun
from millstream.coordination.cluster_view import ClusterView
from millstream.coordination.election import ControllerClaim
from millstream.coordination.partition_state import NO_LEADER, PartitionState
from millstream.errors import InvalidReplicaAssignment, InvalidReplicationFactor, NotController, UnknownTopicOrPartition
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


async def reassign(desk: Desk, family: LeadershipFamily, *partitions: dict[str, object], **fields: object) -> list[tuple[int, str]]:
    topics = [{"name": "t", "partitions": list(partitions)}]
    answer = await desk.ask(family.alter_partition_reassignments, ApiKey.ALTER_PARTITION_REASSIGNMENTS, 1, topics=topics, **fields)
    return [(one.error_code, one.error_message or "") for one in answer.responses[0].partitions]


async def listed(desk: Desk, family: LeadershipFamily, topics: object = None) -> dict[int, tuple[list[int], list[int], list[int]]]:
    answer = await desk.ask(family.list_partition_reassignments, ApiKey.LIST_PARTITION_REASSIGNMENTS, 0, topics=topics)
    assert all(topic.partitions for topic in answer.topics), "a topic of which nothing is moved is not named"
    return {
        one.partition_index: (list(one.replicas), list(one.adding_replicas), list(one.removing_replicas))
        for topic in answer.topics
        for one in topic.partitions
    }


async def test_a_move_is_listed_until_it_is_cancelled(desk: Desk, tree: FakeTree, family: LeadershipFamily) -> None:
    to_3: dict[str, object] = {"partition_index": 0, "replicas": [3]}
    assert await reassign(desk, family, to_3) == [(0, "")]
    assert tree.states[TopicPartition("t", 0)].adding_replicas == (3,)
    assert await listed(desk, family) == {0: ([3, 1], [3], [1])}
    assert await listed(desk, family, [{"name": "t", "partition_indexes": [0, 1, 9]}]) == {0: ([3, 1], [3], [1])}
    assert await listed(desk, family, [{"name": "t", "partition_indexes": [1]}, {"name": "nothing", "partition_indexes": [0]}]) == {}
    assert await reassign(desk, family, {"partition_index": 0, "replicas": None}) == [(0, "")]
    assert await listed(desk, family) == {}


async def test_each_partition_has_an_answer_of_its_own(desk: Desk, family: LeadershipFamily) -> None:
    asked: list[dict[str, object]] = [
        {"partition_index": 0, "replicas": [3]},
        {"partition_index": 1, "replicas": [9]},
        {"partition_index": 2, "replicas": None},
        {"partition_index": 3, "replicas": [1]},
    ]
    answers = await reassign(desk, family, *asked)
    codes = [0, InvalidReplicaAssignment.code, NoReassignmentInProgress.code, UnknownTopicOrPartition.code]
    assert [code for code, _ in answers] == codes
    assert answers[1][1] == "t-1 cannot be on [9]: no broker is registered with the number 9"


async def test_answers_about_thousands_of_partitions_are_put_together_in_turns(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("millstream.broker.storage.loop_turns.TURN_S", -1)
    count = 2_000
    names = [TopicPartition("t", number) for number in range(count)]
    moving = begun(LED, (3,))
    family = LeadershipFamily(ClusterView, cast(ActiveController, Moving(dict.fromkeys(names, moving))))
    partitions = [{"partition_index": number, "replicas": (3,)} for number in range(count)]
    asked = [
        desk.ask(
            family.alter_partition_reassignments, ApiKey.ALTER_PARTITION_REASSIGNMENTS, 1, topics=[{"name": "t", "partitions": partitions}]
        ),
        desk.ask(family.list_partition_reassignments, ApiKey.LIST_PARTITION_REASSIGNMENTS, 0, topics=None),
    ]
    for asking in asked:
        answering, turns = asyncio.create_task(asking), 0
        while not answering.done():
            await asyncio.sleep(0)
            turns += 1
        assert turns >= count // AT_ONCE
        answer = answering.result()
        (topic,) = answer.responses if hasattr(answer, "responses") else answer.topics
        assert [one.partition_index for one in topic.partitions] == list(range(count))


class Moving:
    """A controller for which all of these move."""

    def __init__(self, states: dict[TopicPartition, PartitionState]) -> None:
        self._states = states

    async def reassign(self, _targets: object, *, may_grow: bool) -> dict[TopicPartition, PartitionState]:
        assert may_grow
        return self._states

    async def reassignments(self) -> dict[TopicPartition, PartitionState]:
        return self._states


async def test_the_number_of_replicas_changes_only_where_the_request_allows_it(desk: Desk, family: LeadershipFamily) -> None:
    to_both: dict[str, object] = {"partition_index": 0, "replicas": [1, 3]}
    ((code, _),) = await reassign(desk, family, to_both, allow_replication_factor_change=False)
    assert code == InvalidReplicationFactor.code
    assert await reassign(desk, family, to_both) == [(0, "")]


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
    for ask, key in (
        (family.alter_partition_reassignments, ApiKey.ALTER_PARTITION_REASSIGNMENTS),
        (family.list_partition_reassignments, ApiKey.LIST_PARTITION_REASSIGNMENTS),
    ):
        assert (await desk.ask(ask, key, 0, topics=[])).error_code == NotController.code
