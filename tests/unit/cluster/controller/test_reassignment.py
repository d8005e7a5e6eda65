"""A partition on its way to other brokers: every transition, by the rule and by the controller that decides it."""

import random
from collections.abc import Mapping
from contextlib import suppress

import pytest

from millstream.admin_errors import NoReassignmentInProgress
from millstream.cluster.controller.controller_machine import BrokerLife, ControllerMachine, Decision
from millstream.cluster.controller.leader_election import ElectionRules
from millstream.cluster.controller.reassignment import begun
from millstream.coordination.partition_state import NO_LEADER, PartitionState
from millstream.errors import InvalidReplicaAssignment, InvalidReplicationFactor, KafkaError, UnknownTopicOrPartition
from millstream.topic_partition import TopicPartition

ORDERS = TopicPartition("orders", 0)
STATE = PartitionState((1, 2, 3), leader=1, leader_epoch=5, in_sync_replicas=(1, 2, 3))
LIVES = {number: BrokerLife(10 + number) for number in range(1, 8)}


class Script:
    """A controller with one partition: what is decided is written at once."""

    def __init__(self, state: PartitionState = STATE, *, rules: ElectionRules | None = None) -> None:
        wanted = rules or ElectionRules(min_insync_replicas=2)
        self.machine = ControllerMachine(
            {ORDERS: state}, {number: life.epoch for number, life in LIVES.items()}, rules=lambda _topic: wanted
        )
        self.machine.brokers = dict(LIVES)

    @property
    def state(self) -> PartitionState:
        return self.machine.partitions[ORDERS]

    def _write(self, state: PartitionState) -> PartitionState:
        state.check_follows(self.state)
        assert PartitionState.decode(state.encode(), partition_epoch=state.partition_epoch) == state
        self.machine.take(Decision({ORDERS: state}, {}))
        return self.state

    def reassign(self, *target: int, may_grow: bool = True) -> PartitionState:
        return self._write(self.machine.reassign(ORDERS, target, may_grow=may_grow))

    def cancel(self) -> PartitionState:
        return self._write(self.machine.reassign(ORDERS, None))

    def in_sync(self, *replicas: int) -> PartitionState:
        """The leader asks for this in-sync set."""
        base, leader = self.state, self.state.leader
        asked: Mapping[int, int] = {replica: LIVES[replica].epoch for replica in replicas}
        return self._write(self.machine.in_sync_change(ORDERS, leader=leader, broker_epoch=LIVES[leader].epoch, base=base, in_sync=asked))

    def alive(self, *brokers: int) -> PartitionState:
        """Only these are registered."""
        registered = {number: LIVES[number] for number in brokers}
        decision = self.machine.brokers_changed(registered)
        for state in decision.partitions.values():
            state.check_follows(self.state)
        self.machine.take(decision, registered=registered)
        return self.state

    def something(self, chance: random.Random) -> None:
        """Whatever may happen next; what is refused changes nothing."""
        brokers = range(1, 7)
        kind = chance.choice(["reassign", "reassign", "cancel", "in sync", "in sync", "in sync", "alive", "alive"])
        with suppress(KafkaError):
            if kind == "reassign":
                self.reassign(*chance.sample(brokers, chance.randint(1, 3)), may_grow=chance.random() < 0.9)
            elif kind == "cancel":
                self.cancel()
            elif kind == "alive":
                self.alive(*(number for number in brokers if chance.random() < 0.8))
            elif self.state.leader in self.machine.brokers:
                joins = [replica for replica in self.state.replicas if chance.random() < 0.7]
                self.in_sync(*dict.fromkeys([self.state.leader, *joins]))


def moving(state: PartitionState) -> tuple[tuple[int, ...], tuple[int, ...], tuple[int, ...]]:
    return state.replicas, state.adding_replicas, state.removing_replicas


def test_while_it_runs_both_the_old_and_the_new_are_replicas_and_no_client_is_interrupted() -> None:
    state = Script().reassign(4, 5, 6)
    assert moving(state) == ((4, 5, 6, 1, 2, 3), (4, 5, 6), (1, 2, 3))
    assert (state.leader, state.leader_epoch, state.in_sync_replicas) == (1, 5, (1, 2, 3))
    assert state.target_replicas == (4, 5, 6)


def test_it_is_completed_when_all_of_the_target_are_in_sync_and_one_of_them_leads() -> None:
    script = Script()
    script.reassign(4, 5, 6)
    assert script.in_sync(1, 2, 3, 4, 5).is_reassigning
    state = script.in_sync(1, 2, 3, 4, 5, 6)
    assert moving(state) == ((4, 5, 6), (), ())
    assert (state.leader, state.leader_epoch, state.in_sync_replicas) == (4, 6, (4, 5, 6))


def test_a_leader_that_stays_goes_on_leading_in_another_epoch() -> None:
    """A replica that goes may still send what it sent: it is of a former epoch then."""
    script = Script()
    script.reassign(4, 1)
    state = script.in_sync(1, 4)
    assert (state.replicas, state.leader, state.leader_epoch, state.in_sync_replicas) == ((4, 1), 1, 6, (1, 4))


def test_more_replicas_alone_keep_the_leader_epoch() -> None:
    script = Script()
    script.reassign(1, 2, 3, 4)
    state = script.in_sync(1, 2, 3, 4)
    assert (state.replicas, state.leader, state.leader_epoch, state.is_reassigning) == ((1, 2, 3, 4), 1, 5, False)


def test_fewer_replicas_need_nothing_to_be_copied() -> None:
    state = Script().reassign(2, 3)
    assert (moving(state), state.leader, state.leader_epoch, state.in_sync_replicas) == (((2, 3), (), ()), 2, 6, (2, 3))


def test_another_order_is_done_at_once_and_the_leader_stays() -> None:
    state = Script().reassign(3, 1, 2)
    assert (moving(state), state.leader, state.leader_epoch, state.preferred_leader) == (((3, 1, 2), (), ()), 1, 5, 3)


def test_the_present_replicas_in_their_order_are_nothing_to_do() -> None:
    assert Script().machine.reassign(ORDERS, [1, 2, 3]) is STATE


def test_a_member_of_the_target_that_is_not_in_sync_is_waited_for_though_it_was_there_before() -> None:
    script = Script(STATE._replace(in_sync_replicas=(1, 2)))
    script.reassign(3, 4)
    assert script.in_sync(1, 2, 4).is_reassigning
    assert script.in_sync(1, 2, 3, 4).replicas == (3, 4)


# --- cancelled, replaced ------------------------------------------------------------------------------------------------------------------


def test_a_cancelled_one_leaves_what_there_was() -> None:
    script = Script()
    script.reassign(4, 5, 6)
    script.in_sync(1, 2, 3, 4)
    state = script.cancel()
    assert moving(state) == ((1, 2, 3), (), ())
    assert (state.leader, state.leader_epoch, state.in_sync_replicas) == (1, 6, (1, 2, 3))
    with pytest.raises(NoReassignmentInProgress):
        script.cancel()


def test_a_new_replica_that_leads_by_then_gives_way_when_it_is_cancelled() -> None:
    script = Script()
    script.reassign(4, 5)
    script.in_sync(1, 2, 3, 4)
    assert script.alive(3, 4, 5).leader == 4
    state = script.cancel()
    assert (state.leader, state.in_sync_replicas, set(state.replicas)) == (3, (3,), {1, 2, 3})


def test_it_cannot_be_cancelled_when_only_new_replicas_have_everything() -> None:
    script = Script()
    script.reassign(4, 5)
    script.in_sync(1, 2, 3, 4)
    script.alive(4, 5)
    with pytest.raises(InvalidReplicaAssignment, match=r"cannot be cancelled: of \[1, 2, 3\] none is in sync"):
        script.cancel()
    assert script.in_sync(4, 5).replicas == (4, 5), "but it is completed without the old ones"


def test_where_unclean_elections_are_allowed_it_can() -> None:
    script = Script(rules=ElectionRules(allows_unclean=True))
    script.reassign(4, 5)
    script.in_sync(1, 2, 3, 4)
    script.alive(4, 5)
    state = script.cancel()
    assert (set(state.replicas), state.leader, state.in_sync_replicas) == ({1, 2, 3}, NO_LEADER, ())
    assert script.alive(2, 4, 5).leader == 2


@pytest.mark.parametrize("is_asked_for", [False, True])
def test_an_unclean_election_prefers_who_was_there_to_who_has_perhaps_nothing_yet(is_asked_for: bool) -> None:
    script = Script(STATE._replace(in_sync_replicas=(1,)), rules=ElectionRules(allows_unclean=not is_asked_for))
    script.reassign(4, 5)
    assert script.alive(3, 4, 5).leader == (NO_LEADER if is_asked_for else 3)
    if is_asked_for:
        assert script.machine.elect(ORDERS, is_unclean=True).leader == 3
    script = Script(STATE._replace(in_sync_replicas=(1,)), rules=ElectionRules(allows_unclean=True))
    script.reassign(4, 5)
    assert script.alive(4, 5).leader == 4, "there is no other"


@pytest.mark.parametrize(("alone_in_sync", "can_be"), [(1, True), (4, False)])
def test_without_any_replica_alive_it_can_be_cancelled_if_who_may_lead_was_there_before(alone_in_sync: int, can_be: bool) -> None:
    script = Script()
    script.reassign(4, 5)
    script.in_sync(1, 2, 3, 4)
    script.alive(alone_in_sync)
    script.alive(7)
    if not can_be:  # 1, 2 and 3 were in sync when the set was large enough to commit without them
        script.machine.partitions[ORDERS] = script.state._replace(eligible_leaders=(4,))
        with pytest.raises(InvalidReplicaAssignment):
            script.cancel()
        return
    state = script.cancel()
    assert (state.leader, state.is_reassigning, state.eligible_leaders[:1]) == (NO_LEADER, False, (1,))
    assert script.alive(1).leader == 1


def test_who_is_left_to_lead_after_a_cancellation_may_also_do_so_when_it_comes_back_without_its_marker() -> None:
    """It is as good as the last leader was: nothing that is left could know more."""
    script = Script(STATE._replace(replicas=(1, 2, 5), leader=NO_LEADER, in_sync_replicas=(), eligible_leaders=(1, 5), last_leader=5))
    script.machine.partitions[ORDERS] = script.state._replace(adding_replicas=(5,))
    script.alive(3)
    state = script.cancel()
    assert (state.leader, state.eligible_leaders, state.last_leader) == (NO_LEADER, (1,), 1)
    killed = {3: LIVES[3], 1: BrokerLife(99)}
    assert script.machine.brokers_changed(killed).partitions[ORDERS].leader == 1


def test_a_second_request_replaces_the_target() -> None:
    script = Script()
    script.reassign(4, 5, 6)
    script.in_sync(1, 2, 3, 4)
    state = script.reassign(4, 5, 7)
    assert moving(state) == ((4, 5, 7, 1, 2, 3, 6), (4, 5, 6, 7), (1, 2, 3, 6)), "6 was not there before, and will not be"
    assert script.in_sync(1, 2, 3, 4, 5, 7).replicas == (4, 5, 7)


def test_a_replaced_one_is_cancelled_to_what_there_was_before_the_first() -> None:
    script = Script()
    script.reassign(4, 5, 6)
    script.in_sync(1, 2, 3, 4)
    script.reassign(4, 7)
    state = script.cancel()
    assert (state.replicas, state.in_sync_replicas) == ((1, 2, 3), (1, 2, 3))


def test_a_request_back_to_the_old_replicas_is_done_at_once() -> None:
    script = Script()
    script.reassign(4, 5, 6)
    script.in_sync(1, 2, 3, 4)
    state = script.reassign(1, 2, 3)
    assert (moving(state), state.in_sync_replicas, state.leader) == (((1, 2, 3), (), ()), (1, 2, 3), 1)


def test_all_of_them_may_stay_after_all() -> None:
    script = Script()
    script.reassign(4)
    assert moving(script.reassign(1, 2, 3, 4)) == ((1, 2, 3, 4), (4,), ())
    assert script.in_sync(1, 2, 3, 4).replicas == (1, 2, 3, 4)


# --- brokers that fail --------------------------------------------------------------------------------------------------------------------


def test_a_leader_that_dies_is_followed_by_any_that_is_in_sync_also_a_new_one() -> None:
    script = Script()
    script.reassign(4, 5)
    script.in_sync(1, 4)
    state = script.alive(2, 3, 4, 5, 6, 7)
    assert (state.leader, state.in_sync_replicas, state.is_reassigning) == (4, (4,), True)
    assert script.in_sync(4, 5).replicas == (4, 5)


def test_a_dead_broker_that_goes_is_not_waited_for() -> None:
    script = Script()
    script.alive(1, 2, 4)
    script.reassign(1, 2, 4)
    state = script.in_sync(1, 2, 4)
    assert (moving(state), state.leader) == (((1, 2, 4), (), ()), 1)


def test_a_dead_broker_that_comes_is_waited_for_and_the_move_can_be_cancelled() -> None:
    script = Script()
    script.alive(1, 2, 3)
    assert script.reassign(1, 2, 4).adding_replicas == (4,)
    script.alive(1, 2, 3, 5)
    assert script.state.is_reassigning
    assert script.cancel().replicas == (1, 2, 3)


def test_the_last_member_that_comes_back_completes_it_though_the_leader_is_away() -> None:
    """The in-sync set holds all of the target, and only one of them could not lead at that moment."""
    script = Script(STATE._replace(replicas=(4, 1), leader=1, in_sync_replicas=(1, 4), adding_replicas=(4,), removing_replicas=(1,)))
    state = script.alive(4)
    assert (moving(state), state.leader, state.in_sync_replicas) == (((4,), (), ()), 4, (4,))


def test_nothing_is_completed_that_would_be_without_a_leader() -> None:
    script = Script()
    script.machine.brokers = {1: LIVES[1]}
    state = script.reassign(2, 3)  # the controller has not dealt with their deaths yet
    assert (state.leader, state.is_reassigning) == (1, True)
    assert script.alive(1).in_sync_replicas == (1,)


def test_a_broker_that_stops_is_relieved_while_partitions_move() -> None:
    script = Script()
    script.reassign(4, 5)
    script.in_sync(1, 2, 3, 4)
    script.machine.take(script.machine.relieve(1))
    assert (script.state.leader, script.state.is_reassigning) == (4, True)


# --- what is refused ----------------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("target", "error", "words"),
    [
        ([], InvalidReplicaAssignment, "at least one replica"),
        ([1, 9], InvalidReplicaAssignment, "no broker is registered with the number 9"),
        ([-1], InvalidReplicaAssignment, "no broker is registered with the number -1"),
        ([1, 2, 1], InvalidReplicaAssignment, "named twice"),
    ],
)
def test_a_target_that_cannot_be_is_refused_and_nothing_changes(target: list[int], error: type[KafkaError], words: str) -> None:
    script = Script()
    with pytest.raises(error, match=words):
        script.reassign(*target)
    assert script.state is STATE


def test_another_number_of_replicas_is_refused_where_the_request_says_so() -> None:
    script = Script()
    with pytest.raises(InvalidReplicationFactor, match=r"has 3 replica\(s\) and would have 2"):
        script.reassign(4, 5, may_grow=False)
    script.reassign(4, 5, 6, may_grow=False)
    script.reassign(4, 5, 7, may_grow=False)
    with pytest.raises(InvalidReplicationFactor):
        script.reassign(4, 5, 6, 7, may_grow=False)


def test_an_unknown_partition_is_refused() -> None:
    with pytest.raises(UnknownTopicOrPartition):
        Script().machine.reassign(TopicPartition("orders", 1), [1])


def test_the_cluster_leaves_alone_what_an_operator_has_placed() -> None:
    assert begun(STATE, (2, 3)).is_assigned


@pytest.mark.parametrize("min_insync_replicas", [1, 2, 3])
def test_whatever_happens_who_leads_had_everything_and_when_all_are_well_it_arrives(min_insync_replicas: int) -> None:
    for seed in range(60):
        chance = random.Random(seed)
        script = Script(rules=ElectionRules(min_insync_replicas))
        for _ in range(40):
            before = script.state
            script.something(chance)
            after = script.state
            if after.leader not in (before.leader, NO_LEADER):
                trusted = {*before.in_sync_replicas, *before.eligible_leaders, *after.in_sync_replicas}
                assert after.leader in trusted or (not before.in_sync_replicas and after.leader == before.last_leader), (
                    seed,
                    before,
                    after,
                )
            assert set(before.replicas) <= set(after.replicas) or after.leader_epoch > before.leader_epoch, (seed, before, after)
        script.alive(*LIVES)
        target = script.state.target_replicas
        if script.state.is_reassigning:
            script.in_sync(*script.state.replicas)
        assert (script.state.replicas, script.state.is_reassigning, script.state.leader in target) == (target, False, True), seed
