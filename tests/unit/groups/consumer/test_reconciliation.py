from collections.abc import Iterable
from uuid import UUID

import pytest

from millstream.groups.consumer.reconciliation import MemberState, Target, reconcile
from millstream.groups.consumer.records import Assignment, CurrentAssignment

A, B = UUID(int=1), UUID(int=2)
STABLE, UNREVOKED, UNRELEASED = (int(state) for state in MemberState)


def target(*numbers: int, epoch: int = 2, taken: Iterable[int] = (), subscribed: Iterable[UUID] = (A,), changed: bool = False) -> Target:
    assignment: Assignment = ((A, numbers),) if numbers else ()
    return Target(
        assignment,
        epoch,
        subscribed_ids=frozenset(subscribed),
        subscription_changed=changed,
        is_free=lambda _, number: number not in taken,
    )


def on_a(*numbers: int) -> Assignment:
    return ((A, numbers),) if numbers else ()


def test_stable_member_of_the_targets_epoch_stays() -> None:
    current = CurrentAssignment(2, 1, STABLE, on_a(0), ())
    assert reconcile(current, target(0, 1), owned=()) is current


def test_free_partitions_are_taken_with_the_new_epoch() -> None:
    current = CurrentAssignment(1, 0, STABLE, on_a(0), ())
    assert reconcile(current, target(0, 1), owned=None) == CurrentAssignment(2, 1, STABLE, on_a(0, 1), ())


def test_partitions_that_others_hold_are_waited_for_in_the_new_epoch() -> None:
    current = CurrentAssignment(1, 0, STABLE, (), ())
    waiting = reconcile(current, target(0, 1, taken=[1]), owned=None)
    assert waiting == CurrentAssignment(2, 1, UNRELEASED, on_a(0), ())
    still_waiting = reconcile(waiting, target(0, 1, taken=[1]), owned=None)
    assert still_waiting == CurrentAssignment(2, 2, UNRELEASED, on_a(0), ())
    assert reconcile(still_waiting, target(0, 1, taken=[1]), owned=None) == still_waiting
    assert reconcile(waiting, target(0, 1), owned=None) == CurrentAssignment(2, 2, STABLE, on_a(0, 1), ())


def test_surplus_is_given_up_in_the_old_epoch_before_anything_is_taken() -> None:
    current = CurrentAssignment(1, 0, STABLE, on_a(0, 1), ())
    revoking = reconcile(current, target(0, 2), owned=None)
    assert revoking == CurrentAssignment(1, 1, UNREVOKED, on_a(0), on_a(1))
    assert reconcile(revoking, target(0, 2), owned=None) is revoking
    assert reconcile(revoking, target(0, 2), owned=on_a(0, 1)) is revoking
    assert reconcile(revoking, target(0, 2), owned=on_a(0)) == CurrentAssignment(2, 1, STABLE, on_a(0, 2), ())


def test_what_the_member_does_not_own_any_more_need_not_be_revoked() -> None:
    current = CurrentAssignment(1, 0, STABLE, on_a(0, 1), ())
    assert reconcile(current, target(0, 2), owned=on_a(0)) == CurrentAssignment(2, 1, STABLE, on_a(0, 2), ())


def test_target_that_changes_again_is_followed_after_the_revocation() -> None:
    revoking = CurrentAssignment(1, 0, UNREVOKED, on_a(0), on_a(1))
    assert reconcile(revoking, target(1, epoch=5), owned=on_a(0)) == CurrentAssignment(1, 1, UNREVOKED, (), on_a(0))
    assert reconcile(revoking, target(0, 1, epoch=5), owned=on_a(0)) == CurrentAssignment(5, 1, STABLE, on_a(0, 1), ())


def test_topics_that_the_member_does_not_subscribe_to_any_more_are_not_in_its_target() -> None:
    current = CurrentAssignment(1, 0, STABLE, on_a(0), ())
    assert reconcile(current, target(0, 1, subscribed=[B]), owned=None) == CurrentAssignment(1, 1, UNREVOKED, (), on_a(0))


def test_unsubscribing_takes_effect_before_there_is_a_new_target() -> None:
    current = CurrentAssignment(2, 1, STABLE, ((A, (0,)), (B, (0,))), ())
    away = target(0, subscribed=[B], changed=True)
    assert reconcile(current, away, owned=None) == CurrentAssignment(2, 1, UNREVOKED, ((B, (0,)),), on_a(0))
    assert reconcile(current, away, owned=((B, (0,)),)) == CurrentAssignment(2, 1, STABLE, ((B, (0,)),), ())
    revoking = CurrentAssignment(2, 1, UNREVOKED, on_a(0), ((B, (0,)),))
    both = reconcile(revoking, away, owned=None)
    assert both == CurrentAssignment(2, 1, UNREVOKED, (), ((A, (0,)), (B, (0,))))


@pytest.mark.parametrize("state", [3, 9])
def test_member_in_a_state_of_a_later_version_begins_anew(state: int) -> None:
    current = CurrentAssignment(1, 0, state, on_a(0), ())
    assert reconcile(current, target(0, 1), owned=()).state == STABLE
