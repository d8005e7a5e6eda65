"""Who leads, and who may: the rule for one partition."""

import pytest

from millstream.cluster.controller.leader_election import ElectionRules, changed_replicas
from millstream.coordination.partition_state import NO_LEADER, PartitionState

STATE = PartitionState((1, 2, 3), leader=1, leader_epoch=5, in_sync_replicas=(1, 2, 3))
TWO = ElectionRules(min_insync_replicas=2)
ALL = frozenset({1, 2, 3})


def test_the_leader_goes_on_while_followers_come_and_go() -> None:
    without = changed_replicas(STATE, in_sync=(1, 2), alive=ALL, rules=TWO)
    assert (without.leader, without.leader_epoch, without.in_sync_replicas) == (1, 5, (1, 2))
    again = changed_replicas(without, in_sync=(1, 2, 3), alive=ALL, rules=TWO)
    assert again == STATE


def test_the_next_in_sync_replica_leads_in_a_new_epoch() -> None:
    state = changed_replicas(STATE, in_sync=(2, 3), alive={2, 3}, rules=TWO)
    assert (state.leader, state.leader_epoch, state.in_sync_replicas, state.eligible_leaders) == (2, 6, (2, 3), ())


def test_who_leaves_too_small_a_set_stays_eligible() -> None:
    state = changed_replicas(STATE, in_sync=(3,), alive={3}, rules=TWO)
    assert (state.leader, state.in_sync_replicas, state.eligible_leaders) == (3, (3,), (1, 2))
    gone = changed_replicas(state, in_sync=(), alive=(), rules=TWO)
    assert (gone.leader, gone.in_sync_replicas, gone.eligible_leaders, gone.last_leader) == (NO_LEADER, (), (1, 2, 3), 3)
    back = changed_replicas(gone, in_sync=(), alive={2}, rules=TWO)
    assert (back.leader, back.leader_epoch, back.in_sync_replicas, back.eligible_leaders) == (2, 8, (2,), (1, 3))


def test_a_set_that_is_large_enough_again_has_no_other_eligible_leaders() -> None:
    state = STATE._replace(in_sync_replicas=(1,), eligible_leaders=(2, 3))
    assert changed_replicas(state, in_sync=(1, 2), alive=ALL, rules=TWO).eligible_leaders == ()


def test_who_lost_what_it_had_is_neither_in_sync_nor_eligible() -> None:
    state = STATE._replace(in_sync_replicas=(1,), eligible_leaders=(2, 3))
    after = changed_replicas(state, in_sync=(1,), alive=ALL, rules=TWO, lost={2})
    assert (after.leader, after.eligible_leaders) == (1, (3,))


def test_the_last_leader_begins_anew_when_no_other_can_know_more() -> None:
    alone = PartitionState((1,), leader=1, leader_epoch=5, in_sync_replicas=(1,))
    gone = changed_replicas(alone, in_sync=(), alive=(), rules=ElectionRules())
    assert (gone.leader, gone.eligible_leaders) == (NO_LEADER, (1,))
    back = changed_replicas(gone, in_sync=(), alive={1}, rules=ElectionRules(), lost={1})
    assert (back.leader, back.leader_epoch, back.in_sync_replicas, back.last_leader) == (1, 7, (1,), NO_LEADER)


def test_a_leader_that_lost_what_it_had_leads_in_another_epoch() -> None:
    alone = PartitionState((1,), leader=1, leader_epoch=5, in_sync_replicas=(1,))
    assert changed_replicas(alone, in_sync=(), alive={1}, rules=ElectionRules(), lost={1}).leader_epoch == 6


@pytest.mark.parametrize(("allows_unclean", "leader"), [(False, NO_LEADER), (True, 2)])
def test_others_lead_only_where_unclean_elections_are_allowed(allows_unclean: bool, leader: int) -> None:
    state = STATE._replace(in_sync_replicas=(1,))
    after = changed_replicas(state, in_sync=(), alive={2, 3}, rules=ElectionRules(1, allows_unclean))
    assert after.leader == leader
    assert after.in_sync_replicas == ((2,) if allows_unclean else ())


def test_the_preferred_leader_takes_over_when_it_is_in_sync() -> None:
    state = STATE._replace(leader=2)
    assert changed_replicas(state, in_sync=ALL, alive=ALL, rules=TWO, prefers_first=True).leader == 1
    assert changed_replicas(state, in_sync=(2, 3), alive=ALL, rules=TWO, prefers_first=True).leader == 2
