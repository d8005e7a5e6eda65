import json
from pathlib import Path

import pytest

from millstream.cluster.controller.reassignment import begun
from millstream.coordination.partition_state import PartitionState
from millstream.log.directories.checkpoints import HIGH_WATERMARK
from millstream.log.directories.directory import is_deleted_directory_name
from millstream.processes.layout import Layout
from millstream.processes.layout_change import Home, LayoutChange, plan_change
from millstream.topic_partition import TopicPartition

DISK = Path("/disk")
A0, A1 = TopicPartition("a", 0), TopicPartition("a", 1)
STATES = {A0: PartitionState.first((1,)), A1: PartitionState.first((2,))}
LIVES = {1: 70, 2: 80}


def home(*names: str, clean: int | None = None) -> Home:
    return Home(names, {HIGH_WATERMARK: {A0: 10, A1: 11}}, clean)


def planned(first: Home, second: Home, *, after: Layout) -> LayoutChange:
    return plan_change(Layout.of_processes(2), after, disks={DISK: {1: first, 2: second}}, states=STATES, lives=LIVES)


def test_change_comes_back_from_its_file() -> None:
    change = planned(home("a-0", clean=70), home("a-1", clean=80), after=Layout.alone(1))
    assert LayoutChange.decode(change.encode("/disk")) == (change, "/disk")
    with pytest.raises(ValueError, match="version 2"):
        LayoutChange.decode(json.dumps({"version": 2}).encode())
    with pytest.raises(ValueError, match="lacks"):
        LayoutChange.decode(b'{"version": 1}')


def test_all_of_brokers_that_stopped_cleanly_is_clean_and_has_lost_nothing() -> None:
    disk = planned(home("a-0", clean=70), home("a-1", clean=80), after=Layout.alone(1)).disks[str(DISK)]
    assert disk.clean_epochs == {1: 70}
    assert disk.offsets[1][HIGH_WATERMARK] == {A0: 10, A1: 11}


def test_what_one_broker_left_unclean_makes_the_new_home_unclean() -> None:
    assert planned(home("a-0", clean=70), home("a-1"), after=Layout.alone(1)).disks[str(DISK)].clean_epochs == {}


def test_a_clean_stop_of_another_life_than_was_last_decided_about_is_clean_but_not_in_sync() -> None:
    assert planned(home("a-0", clean=70), home("a-1", clean=79), after=Layout.alone(1)).disks[str(DISK)].clean_epochs == {1: -1}


def test_what_belongs_to_no_topic_goes_along_and_is_set_aside() -> None:
    change = planned(home("a-0"), home("a-1", "gone-0", "b-0.stray", "x-0." + "0" * 32 + "-delete", "notes"), after=Layout.of_processes(1))
    names = {rename.name: rename.new_name for rename in change.disks[str(DISK)].renames}
    assert names["a-1"] == "a-1"
    assert names["gone-0"].endswith("-stray")
    assert names["x-0." + "0" * 32 + "-delete"] == "x-0." + "0" * 32 + "-delete"
    assert "notes" not in names


def test_a_log_that_was_moving_between_disks_stays_where_it_is() -> None:
    copy = "a-1." + "0" * 32 + "-future"
    for first, second in ((home("a-0", copy), home("a-1")), (home("a-0"), home("a-1", copy))):
        renames = planned(first, second, after=Layout.of_processes(1)).disks[str(DISK)].renames
        [(target, name)] = [(rename.target, rename.new_name) for rename in renames if rename.name == copy]
        assert target == 1
        assert is_deleted_directory_name(name)


def test_a_copy_of_a_log_that_is_lost_is_set_aside() -> None:
    """The disk from which it was moving was given up: nothing else may be left of it."""
    copy = "a-1." + "0" * 32 + "-future"
    for after in (Layout.of_processes(1), Layout.of_processes(3), Layout.alone(1)):
        renames = planned(home("a-0"), home(copy), after=after).disks[str(DISK)].renames
        [name] = [rename.new_name for rename in renames if rename.name == copy]
        assert name.endswith("-stray")
    gone = copy.replace("a-1", "gone-1")
    [rename] = planned(home("a-0"), home("a-1", gone), after=Layout.of_processes(3)).disks[str(DISK)].renames
    assert is_deleted_directory_name(rename.new_name)


def test_what_lies_where_a_log_goes_is_put_out_of_its_way_first() -> None:
    renames = planned(home("a-0", "a-1"), home("a-1"), after=Layout.of_processes(1)).disks[str(DISK)].renames
    assert [(rename.source, rename.name) for rename in renames] == [(1, "a-1"), (2, "a-1")]
    assert renames[0].new_name.endswith("-stray")
    assert renames[1].new_name == "a-1"


def test_only_partitions_that_move_are_written() -> None:
    change = planned(home("a-0"), home("a-1"), after=Layout.of_processes(1))
    assert change.states == {A1: PartitionState((1,), 1, 1, (1,))}
    assert change.retired == [2]


@pytest.mark.parametrize(
    ("state", "kept"),
    [
        (begun(PartitionState.first((1,)), [2]), 1),
        (begun(PartitionState.first((1,)), [2])._replace(in_sync_replicas=(2, 1)), 2),
        (begun(PartitionState.first((1,)), [2])._replace(leader=2, in_sync_replicas=(2,)), 2),
    ],
    ids=["given up", "done", "done and led"],
)
def test_a_reassignment_that_is_under_way_is_over(state: PartitionState, kept: int) -> None:
    disks = {DISK: {number: Home(["a-0"]) for number in (1, 2)}}
    change = plan_change(Layout.of_processes(2), Layout.of_processes(3), disks=disks, states={A0: state}, lives=LIVES)
    after = change.states[A0]
    assert (after.replicas, after.in_sync_replicas, after.is_reassigning) == ((kept,), (kept,), False)
    assert after.leader_epoch == state.leader_epoch + 1
    assert PartitionState.decode(after.encode(), partition_epoch=0) == after
    [rename] = change.disks[str(DISK)].renames
    assert rename.source == 3 - kept
    assert rename.new_name.endswith("-delete")


def test_of_a_reassignment_whose_old_replicas_lack_something_all_replicas_stay() -> None:
    state = begun(PartitionState.first((1,)), [2, 3])._replace(leader=2, in_sync_replicas=(2,))
    disks = {DISK: {number: Home(["a-0"]) for number in (1, 2, 3)}}
    change = plan_change(Layout.of_processes(3), Layout.of_processes(4), disks=disks, states={A0: state}, lives={})
    after = change.states[A0]
    assert (set(after.replicas), after.in_sync_replicas, after.is_reassigning) == ({1, 2, 3}, (2,), False)


def test_what_lies_in_another_data_directory_under_the_name_of_a_log_that_comes_is_put_out_of_its_way() -> None:
    disks = {DISK: {1: Home(), 2: Home(["a-1"])}, Path("/other"): {1: Home(["a-1"]), 2: Home()}}
    states = {A1: PartitionState.first((2,))}
    change = plan_change(Layout.of_processes(2), Layout.of_processes(1), disks=disks, states=states, lives=LIVES)
    [rename] = change.disks["/other"].renames
    assert (rename.source, rename.name, rename.target) == (1, "a-1", 1)
    assert rename.new_name.endswith("-stray")
