"""What the controller decides when brokers come and go, and when leaders ask."""

from collections.abc import Mapping

import pytest

from millstream.admin_errors import ElectionNotNeeded, EligibleLeadersNotAvailable, PreferredLeaderNotAvailable
from millstream.cluster.controller.controller_machine import BrokerLife, ControllerMachine
from millstream.cluster.controller.leader_election import ElectionRules
from millstream.coordination.partition_state import NO_LEADER, PartitionState
from millstream.errors import FencedLeaderEpoch, InvalidRequest, KafkaError, NotController, UnknownTopicOrPartition
from millstream.replication_errors import IneligibleReplica, InvalidUpdateVersion, StaleBrokerEpoch
from millstream.topic_partition import TopicPartition

ORDERS = TopicPartition("orders", 0)
STATE = PartitionState((1, 2, 3), leader=1, leader_epoch=0, in_sync_replicas=(1, 2, 3))
LIVES = {1: BrokerLife(11), 2: BrokerLife(12), 3: BrokerLife(13)}


def machine(state: PartitionState = STATE, lives: Mapping[int, BrokerLife] = LIVES) -> ControllerMachine:
    made = ControllerMachine(
        {ORDERS: state}, {broker: life.epoch for broker, life in lives.items()}, rules=lambda _topic: ElectionRules(min_insync_replicas=2)
    )
    made.brokers = dict(lives)
    return made


def changed(made: ControllerMachine, lives: Mapping[int, BrokerLife]) -> PartitionState:
    decision = made.brokers_changed(lives)
    made.take(decision, registered=lives)
    return made.partitions[ORDERS]


def without(*gone: int) -> dict[int, BrokerLife]:
    return {broker: life for broker, life in LIVES.items() if broker not in gone}


def test_nothing_changes_when_all_are_as_they_were() -> None:
    assert machine().brokers_changed(LIVES) == ({}, {})


def test_a_broker_that_goes_leaves_the_in_sync_set_and_another_leads() -> None:
    state = changed(machine(), without(1))
    assert (state.leader, state.leader_epoch, state.in_sync_replicas, state.partition_epoch) == (2, 1, (2, 3), 1)


def test_a_broker_that_comes_back_clean_may_lead_from_the_eligible_ones() -> None:
    made = machine()
    changed(made, without(1, 2))
    state = changed(made, {1: BrokerLife(21, previous_epoch=11)})
    assert (state.leader, state.in_sync_replicas, state.eligible_leaders) == (1, (1,), (2, 3))


def test_one_that_comes_back_without_its_marker_may_not() -> None:
    made = machine()
    changed(made, {})
    state = changed(made, {1: BrokerLife(21)})
    assert (state.leader, state.eligible_leaders) == (NO_LEADER, (2, 3))


@pytest.mark.parametrize(("life", "is_in_sync"), [(BrokerLife(22, previous_epoch=12), True), (BrokerLife(22), False)])
def test_a_life_that_no_controller_saw_end_is_told_apart_by_its_epoch(life: BrokerLife, is_in_sync: bool) -> None:
    """A restart within the session timeout, or while there was no controller."""
    decision = machine().brokers_changed({**LIVES, 2: life})
    assert decision.lives == {2: 22}
    assert (decision.partitions == {}) is is_in_sync
    if not is_in_sync:
        assert decision.partitions[ORDERS].in_sync_replicas == (1, 3)


def test_a_broker_that_is_new_has_lost_nothing() -> None:
    decision = machine().brokers_changed({**LIVES, 4: BrokerLife(40)})
    assert decision == ({}, {4: 40})


def test_a_broker_whose_life_is_not_known_is_not_trusted_to_have_what_it_had() -> None:
    """Another hand removed `/brokers/epochs/<id>`, and then it came back, killed or not: its own word refers to nothing that is known."""
    made = machine()
    del made.known_lives[1]
    for life in (BrokerLife(21), BrokerLife(21, previous_epoch=11)):
        decision = made.brokers_changed({**LIVES, 1: life})
        assert decision.lives == {1: 21}
        state = decision.partitions[ORDERS]
        assert (state.leader, state.in_sync_replicas) == (2, (2, 3))
    # What no other replica has it still leads, in another epoch.
    alone = machine(PartitionState((1,), leader=1, leader_epoch=0, in_sync_replicas=(1,)))
    del alone.known_lives[1]
    state = alone.brokers_changed({1: BrokerLife(21)}).partitions[ORDERS]
    assert (state.leader, state.leader_epoch, state.in_sync_replicas) == (1, 1, (1,))


def test_a_leader_gets_the_in_sync_set_that_it_asks_for() -> None:
    made = machine()
    state = made.in_sync_change(ORDERS, leader=1, broker_epoch=11, base=STATE, in_sync={1: -1, 2: 12})
    assert (state.in_sync_replicas, state.leader_epoch) == ((1, 2), 0)


@pytest.mark.parametrize(
    ("asked", "error"),
    [
        ({"broker_epoch": 10}, StaleBrokerEpoch),
        ({"leader": 4}, StaleBrokerEpoch),
        ({"name": TopicPartition("nothing", 0)}, UnknownTopicOrPartition),
        ({"base": PartitionState((1, 2, 3), 1, 1, (1, 2, 3))}, NotController),
        ({"leader": 2, "broker_epoch": 12}, FencedLeaderEpoch),
        ({"base": STATE.read_at(3)}, NotController),
        ({"in_sync": {}}, InvalidRequest),
        ({"in_sync": {9: 90}}, InvalidRequest),
        ({"in_sync": {1: -1, 9: 90}}, InvalidRequest),
    ],
)
def test_what_cannot_be_is_refused(asked: dict[str, object], error: type[KafkaError]) -> None:
    request: dict[str, object] = {"name": ORDERS, "leader": 1, "broker_epoch": 11, "base": STATE, "in_sync": {1: -1, 2: 12}, **asked}
    with pytest.raises(error):
        machine().in_sync_change(request.pop("name"), **request)  # type: ignore[arg-type]


def test_a_leader_that_leaves_itself_out_resigns_if_another_can_lead() -> None:
    """It cannot write any more."""
    state = machine().in_sync_change(ORDERS, leader=1, broker_epoch=11, base=STATE, in_sync={2: 12, 3: 13})
    assert (state.leader, state.leader_epoch, state.in_sync_replicas) == (2, 1, (2, 3))
    with pytest.raises(IneligibleReplica):
        machine(lives=without(2, 3)).in_sync_change(ORDERS, leader=1, broker_epoch=11, base=STATE, in_sync={2: 12, 3: 13})
    behind = STATE._replace(in_sync_replicas=(1, 2))
    with pytest.raises(InvalidRequest):
        machine(behind).in_sync_change(ORDERS, leader=1, broker_epoch=11, base=behind, in_sync={3: 13})


def test_a_change_that_was_decided_on_an_older_state_is_refused() -> None:
    with pytest.raises(InvalidUpdateVersion):
        machine(STATE.read_at(3)).in_sync_change(ORDERS, leader=1, broker_epoch=11, base=STATE, in_sync={1: -1})


@pytest.mark.parametrize("life", [None, BrokerLife(14), BrokerLife(13, is_stopping=True)])
def test_only_those_who_live_in_that_life_join(life: BrokerLife | None) -> None:
    lives = without(3) if life is None else {**LIVES, 3: life}
    state = PartitionState((1, 2, 3), leader=1, leader_epoch=0, in_sync_replicas=(1, 2))
    with pytest.raises(IneligibleReplica):
        machine(state, lives).in_sync_change(ORDERS, leader=1, broker_epoch=11, base=state, in_sync={1: -1, 2: 12, 3: 13})


def test_a_broker_that_stops_is_relieved_first() -> None:
    made = machine()
    decision = made.relieve(1)
    assert (decision.partitions[ORDERS].leader, decision.partitions[ORDERS].in_sync_replicas) == (2, (2, 3))


def test_what_only_the_stopping_broker_has_stays_with_it() -> None:
    alone = PartitionState((1,), leader=1, leader_epoch=0, in_sync_replicas=(1,))
    made = machine(alone)
    assert made.relieve(1) == ({}, {})
    assert made.brokers_changed(made.brokers) == ({}, {})


def test_preferred_leaders_are_elected_when_they_can_lead() -> None:
    moved = PartitionState((1, 2, 3), leader=2, leader_epoch=4, in_sync_replicas=(2, 3, 1))
    made = machine(moved)
    assert list(made.imbalanced()) == [ORDERS]
    assert (made.elect(ORDERS).leader, made.elect(ORDERS).leader_epoch) == (1, 5)
    with pytest.raises(ElectionNotNeeded):
        machine().elect(ORDERS)
    with pytest.raises(PreferredLeaderNotAvailable):
        machine(PartitionState((1, 2, 3), leader=2, leader_epoch=4, in_sync_replicas=(2, 3))).elect(ORDERS)


def test_an_unclean_leader_is_elected_only_when_there_is_none() -> None:
    leaderless = PartitionState((1, 2, 3), leader=NO_LEADER, leader_epoch=4, in_sync_replicas=(), eligible_leaders=(1,), last_leader=1)
    assert machine(leaderless, without(1)).elect(ORDERS, is_unclean=True).leader == 2
    with pytest.raises(ElectionNotNeeded):
        machine().elect(ORDERS, is_unclean=True)
    with pytest.raises(EligibleLeadersNotAvailable):
        machine(leaderless, {}).elect(ORDERS, is_unclean=True)
