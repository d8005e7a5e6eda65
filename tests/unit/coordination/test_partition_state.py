"""The state of a partition, and its znode."""

import json

import pytest

from millstream.coordination.partition_state import PartitionState

STATE = PartitionState(
    (1, 2, 3), leader=2, leader_epoch=7, in_sync_replicas=(2, 3), eligible_leaders=(1,), last_leader=-1, partition_epoch=4
)


def test_it_is_read_as_it_was_written() -> None:
    assert PartitionState.decode(STATE.encode(), partition_epoch=4) == STATE


def test_a_partition_that_is_being_moved_says_from_where_to_where() -> None:
    state = STATE._replace(adding_replicas=(1,), removing_replicas=(2, 3), is_assigned=True)
    assert PartitionState.decode(state.encode(), partition_epoch=4) == state
    assert (state.is_reassigning, state.target_replicas) == (True, (1,))
    assert (STATE.is_reassigning, STATE.target_replicas) == (False, (1, 2, 3))
    assert b"adding" not in STATE.encode(), "of one that is not, nothing is written about it"


def test_a_new_partition_is_led_by_its_first_replica_that_is_alive() -> None:
    assert PartitionState.first((3, 1, 2)).leader == 3
    state = PartitionState.first((3, 1, 2), alive=frozenset({1, 2}))
    assert (state.leader, state.in_sync_replicas) == (1, (1, 2))


@pytest.mark.parametrize(
    ("field", "value", "complaint"),
    [
        ("replicas", [], "replicas must not be empty"),
        ("replicas", [1, 1, 2, 3], "replicas names a number twice"),
        ("leader", 9, "is led by 9"),
        ("leader", 1, "must be in sync"),
        ("leader", "1", "leader must be"),
        ("in_sync_replicas", [2, 4], "in sync on"),
        ("eligible_leaders", [2], "must not be in sync"),
        ("leader_epoch", -1, "leader_epoch must be"),
        ("last_leader", 8, "is led by"),
        ("adding_replicas", [4], "cannot be adding"),
        ("adding_replicas", [1, 2, 3], "cannot be adding"),
        ("removing_replicas", [1, 2, 3], "and removing"),
        ("removing_replicas", [1, 1], "names a number twice"),
        ("is_assigned", 1, "is_assigned must be true or false"),
    ],
)
def test_what_we_would_not_have_written_is_refused(field: str, value: object, complaint: str) -> None:
    fields = json.loads(STATE.encode())
    fields[field] = value
    with pytest.raises(ValueError, match=complaint):
        PartitionState.decode(json.dumps(fields).encode(), partition_epoch=4)


@pytest.mark.parametrize(
    ("later", "complaint"),
    [
        (PartitionState((1, 2, 3), 2, 6, (2,), partition_epoch=5), "must not go back"),
        (PartitionState((1, 2, 3), 3, 7, (3,), partition_epoch=5), "belongs to the leader 2"),
        (STATE.read_at(3), "version was 4"),
    ],
)
def test_an_epoch_belongs_to_one_leader_and_never_goes_back(later: PartitionState, complaint: str) -> None:
    with pytest.raises(ValueError, match=complaint):
        later.check_follows(STATE)
