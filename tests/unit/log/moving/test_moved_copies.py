"""Which copy is the log, after a crash in the middle of a move."""

from pathlib import Path
from uuid import UUID

import pytest

from millstream.errors import StartupError
from millstream.files import Files
from millstream.log.directories.directory import LogDirectory, future_directory_name, parse_future_name
from millstream.log.directories.manager import LogManager
from millstream.log.moving.moved_copies import Copy, chosen_copy, mark_moved
from millstream.topic_partition import TopicPartition
from tests.manual_clock import ManualClock
from tests.unit.log.moving_log import CONFIG, TOPIC_ID, TwoDisks, copy, swap
from tests.unit.log.partition import append_many, read_all


def directory(name: str) -> LogDirectory:
    return LogDirectory(Files(), Path("/disks") / name, on_offline=lambda _directory, _error: None)


A, B, C = map(directory, "abc")


def copy_in(place: LogDirectory, moved_to: LogDirectory | None = None) -> Copy:
    return Copy(place, place.path / "orders-0", None if moved_to is None else moved_to.id_text)


@pytest.mark.parametrize(
    ("copies", "are_all_there", "expected"),
    [
        ([copy_in(A)], False, A),
        ([copy_in(A, B), copy_in(B)], True, B),
        ([copy_in(B), copy_in(A, B)], False, B),
        ([copy_in(A, B), copy_in(C)], True, C),  # it was moved on while the first disk was away
        ([copy_in(A, B)], True, A),  # the copy never got its name
        ([copy_in(A, B)], False, None),  # or did it?
        ([copy_in(A, B), copy_in(B, C)], True, B),
        ([copy_in(A, B), copy_in(B, C)], False, None),
        ([copy_in(A, B), copy_in(B, C), copy_in(C)], True, C),
    ],
)
def test_one_copy_is_the_log(copies: list[Copy], are_all_there: bool, expected: LogDirectory | None) -> None:
    chosen = chosen_copy(copies, are_all_there=are_all_there)
    assert (None if chosen is None else chosen.directory) is expected


@pytest.mark.parametrize("copies", [[copy_in(A), copy_in(B)], [copy_in(A, B), copy_in(B, A)], [copy_in(A), copy_in(B), copy_in(C, A)]])
def test_two_copies_that_are_as_good_are_for_a_person_to_decide(copies: list[Copy]) -> None:
    with pytest.raises(StartupError, match=r"orders-0 is in /disks/. and in /disks/.: move one of the two elsewhere"):
        chosen_copy(copies, are_all_there=True)


def test_names_of_copies() -> None:
    name = future_directory_name(TopicPartition("orders-eu", 12))
    assert name is not None
    assert parse_future_name(name) == ("orders-eu", 12)
    assert parse_future_name("orders-0") is None
    assert parse_future_name("orders-0.beef-future") is None
    assert parse_future_name(name.replace("-12.", ".")) is None
    assert future_directory_name(TopicPartition("t" * 216, 0)) is None
    assert future_directory_name(TopicPartition("t" * 213, 0)) is not None


def test_a_copy_that_never_got_its_name_is_not_missed(tmp_path: Path) -> None:
    disks = TwoDisks(tmp_path)
    append_many(disks.log, 5)
    mark_moved(Files(), disks.log.path, disks.b.id_text)
    disks.release()
    again = TwoDisks(tmp_path)
    assert (again.log.directory, len(read_all(again.log))) == (again.a, 5)
    assert not (again.log.path / "moved-to").exists()


def test_the_disk_that_was_moved_to_may_be_given_up(tmp_path: Path) -> None:
    disks = TwoDisks(tmp_path)
    append_many(disks.log, 5)
    move = disks.begin()
    copy(move)
    assert swap(move)
    lost = disks.b.id_text
    disks.release()
    (tmp_path / "b").rename(tmp_path / "away")
    alone = LogManager([tmp_path / "a"], clock=ManualClock())
    alone.start(node_id=1, cluster_id="abc", forgotten=[lost])
    alone.load(lambda _topic: CONFIG)
    log = alone.get("orders", 0)
    assert log is not None
    assert len(read_all(log)) == 5
    assert not (log.path / "moved-to").exists()


def test_a_copy_without_its_log_is_set_aside(tmp_path: Path) -> None:
    disks = TwoDisks(tmp_path)
    append_many(disks.log, 5)
    copy(disks.begin())
    old = disks.log.path
    disks.release()
    old.rename(tmp_path / "lost")
    again = TwoDisks(tmp_path)
    assert again.report.moves == []
    assert len(list((tmp_path / "b").glob("orders-0.*-future.*-stray"))) == 1


def test_a_copy_of_a_deleted_topic_goes(tmp_path: Path) -> None:
    disks = TwoDisks(tmp_path)
    append_many(disks.log, 5)
    move = disks.begin()
    disks.release()
    again = LogManager([tmp_path / "a", tmp_path / "b"], clock=ManualClock())
    again.start(node_id=1, cluster_id="abc")
    report = again.load(lambda _topic: CONFIG, topic_ids={"users": UUID(int=9)})
    assert report.deleted == [move.future.path]
    assert report.strays == [disks.log.path]


def test_a_copy_of_an_older_topic_of_that_name_goes(tmp_path: Path) -> None:
    disks = TwoDisks(tmp_path)
    append_many(disks.log, 5)
    move = disks.begin()
    copy(move)
    disks.manager.delete("orders", 0)
    disks.manager.create("orders", 0, topic_id=UUID(int=8), config=CONFIG)
    disks.release()
    again = TwoDisks(tmp_path)
    assert again.report.moves == []
    assert move.future.path in again.report.deleted


def test_a_second_copy_of_the_same_log_goes(tmp_path: Path) -> None:
    disks = TwoDisks(tmp_path)
    append_many(disks.log, 5)
    one, other, own = disks.begin(), disks.begin(), disks.begin(disks.a)
    disks.release()
    again = TwoDisks(tmp_path)
    [(log, kept)] = again.report.moves
    assert log is again.log
    assert {kept.path, *again.report.deleted} == {one.future.path, other.future.path, own.future.path}


def test_a_replica_that_is_not_there_yet_is_created_where_it_was_asked_for(tmp_path: Path) -> None:
    disks = TwoDisks(tmp_path)
    for number in range(4):
        disks.manager.prefer(TopicPartition("wanted", number), disks.b)
    logs = [disks.manager.create("wanted", number, topic_id=TOPIC_ID, config=CONFIG) for number in range(4)]
    assert {log.directory for log in logs} == {disks.b}
    disks.manager.prefer(TopicPartition("wanted", 4), disks.b)
    disks.b.offline = "a disk error"
    assert disks.manager.create("wanted", 4, topic_id=TOPIC_ID, config=CONFIG).directory is disks.a
