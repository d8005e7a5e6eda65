from uuid import UUID

import pytest

from millstream.groups.consumer.group_state import ConsumerGroupState, in_order
from millstream.groups.consumer.records import (
    ConsumerKey,
    ConsumerRecordType,
    ConsumerValue,
    CurrentAssignment,
    GroupEpoch,
    MemberMetadata,
    RegularExpression,
    TargetAssignment,
    TargetAssignmentEpoch,
)

A = UUID(int=1)
METADATA = MemberMetadata("i", None, "c", "/h", ("t",), None, 1_000, None)


@pytest.fixture
def state() -> ConsumerGroupState:
    return ConsumerGroupState("g")


def apply(state: ConsumerGroupState, record_type: ConsumerRecordType, value: ConsumerValue | None, name: str = "") -> None:
    state.apply(ConsumerKey(record_type, "g", name), value)


def having(*numbers: int, revoking: tuple[int, ...] = ()) -> CurrentAssignment:
    return CurrentAssignment(1, 0, 0, ((A, numbers),), ((A, revoking),) if revoking else ())


def test_partitions_have_the_owner_that_was_heard_of_last(state: ConsumerGroupState) -> None:
    apply(state, ConsumerRecordType.CURRENT_ASSIGNMENT, having(0, revoking=(1,)), "m1")
    assert (state.owner(A, 0), state.owner(A, 1), state.owner(A, 2)) == ("m1", "m1", None)
    apply(state, ConsumerRecordType.CURRENT_ASSIGNMENT, having(1), "m2")
    apply(state, ConsumerRecordType.CURRENT_ASSIGNMENT, having(2), "m1")
    assert state.owners == {A: {1: "m2", 2: "m1"}}
    apply(state, ConsumerRecordType.CURRENT_ASSIGNMENT, None, "m2")
    apply(state, ConsumerRecordType.CURRENT_ASSIGNMENT, None, "m1")
    assert state.owners == {}


def test_member_may_be_heard_of_by_any_of_its_records_first(state: ConsumerGroupState) -> None:
    apply(state, ConsumerRecordType.CURRENT_ASSIGNMENT, having(0), "m1")
    apply(state, ConsumerRecordType.MEMBER_METADATA, METADATA, "m1")
    assert state.members["m1"].metadata == METADATA
    assert state.members["m1"].current == having(0)
    assert state.static_members == {"i": "m1"}


def test_member_takes_everything_along_when_it_is_deleted(state: ConsumerGroupState) -> None:
    apply(state, ConsumerRecordType.MEMBER_METADATA, METADATA, "m1")
    apply(state, ConsumerRecordType.CURRENT_ASSIGNMENT, having(0), "m1")
    apply(state, ConsumerRecordType.MEMBER_METADATA, None, "m1")
    assert (state.members, state.owners, state.static_members) == ({}, {}, {})


def test_instance_id_belongs_to_the_member_that_took_it_last(state: ConsumerGroupState) -> None:
    apply(state, ConsumerRecordType.MEMBER_METADATA, METADATA, "m1")
    apply(state, ConsumerRecordType.MEMBER_METADATA, METADATA, "m2")
    apply(state, ConsumerRecordType.MEMBER_METADATA, None, "m1")
    assert state.static_members == {"i": "m2"}
    apply(state, ConsumerRecordType.MEMBER_METADATA, METADATA._replace(instance_id=None), "m2")
    assert state.static_members == {}


@pytest.mark.parametrize("record_type", list(ConsumerRecordType))
def test_deleting_what_is_not_there_does_nothing(state: ConsumerGroupState, record_type: ConsumerRecordType) -> None:
    apply(state, record_type, None, "nobody")
    assert (state.members, state.target, state.expressions, state.owners, state.epoch, state.target_epoch) == ({}, {}, {}, {}, 0, 0)


def test_group_is_gone_only_when_its_metadata_are_deleted(state: ConsumerGroupState) -> None:
    apply(state, ConsumerRecordType.TARGET_ASSIGNMENT, TargetAssignmentEpoch(3))
    assert not state.is_deleted
    apply(state, ConsumerRecordType.GROUP_METADATA, GroupEpoch(4, 7))
    assert (state.epoch, state.metadata_hash, state.target_epoch, state.is_deleted) == (4, 7, 3, False)
    apply(state, ConsumerRecordType.GROUP_METADATA, None)
    assert (state.epoch, state.is_deleted) == (0, True)
    apply(state, ConsumerRecordType.GROUP_METADATA, GroupEpoch(1))
    assert not state.is_deleted


def test_expressions_are_kept_until_they_are_deleted(state: ConsumerGroupState) -> None:
    apply(state, ConsumerRecordType.REGULAR_EXPRESSION, RegularExpression(("t",), 0, 1), "t.*")
    assert state.expressions == {"t.*": RegularExpression(("t",), 0, 1)}
    apply(state, ConsumerRecordType.REGULAR_EXPRESSION, None, "t.*")
    assert state.expressions == {}


def test_partitions_of_kafkas_records_are_put_in_order() -> None:
    assert in_order(TargetAssignment(((UUID(int=2), (3, 1)), (A, (0,)), (UUID(int=3), ())))) == TargetAssignment(
        ((A, (0,)), (UUID(int=2), (1, 3)))
    )
