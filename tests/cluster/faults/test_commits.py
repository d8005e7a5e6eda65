"""The checker of committed offsets notices what a coordinator must not do, and nothing that only clients did."""

from math import inf

from millstream.groups.offsets.records import CommittedOffset, encode_offset_key, encode_offset_value
from tests.cluster.faults.commits import CommitRecord, check_commits
from tests.cluster.faults.groups import ReadRecord
from tests.cluster.faults.history import Commit
from tests.cluster.faults.offsets_log import commits_in


def asked(label: str, offset: int, began: float, ended: float = inf, *, released: float = inf) -> Commit:
    """A member asks for a commit; acknowledged at `ended`."""
    return Commit("g", 0, offset, label, began, ended, released)


def answered(label: str, offset: int, began: float) -> Commit:
    """A client asks what is committed."""
    return Commit("g", 0, offset, label, began, began + 0.1)


def written(label: str, offset: int, at: float = 0.0) -> CommitRecord:
    return CommitRecord("g", 0, offset, label, at)


def problems(attempts: list[Commit], answers: list[Commit], log: list[CommitRecord]) -> list[str]:
    return [problem.text.removeprefix("group g, partition 0: ") for problem in check_commits(attempts, answers, log)]


A, B = asked("a", 5, 0, 1), asked("b", 9, 2, 3)
LOG = [written("a", 5, 0.5), written("b", 9, 2.5)]


def test_commits_that_rise_and_answers_that_follow_them_are_right() -> None:
    answers = [answered("", 0, 0), answered("a", 5, 1.5), answered("a", 5, 2.5), answered("b", 9, 2.6), answered("b", 9, 4)]
    assert problems([A, B], answers, LOG) == []


def test_an_acknowledged_commit_that_is_not_in_the_log_is_noticed() -> None:
    assert problems([A, B], [], LOG[:1]) == ["9 (b) was acknowledged and is not in the log"]


def test_a_commit_without_an_acknowledgement_may_be_there_or_not() -> None:
    attempt = asked("b", 9, 2)
    assert problems([A, attempt], [answered("b", 9, 4)], LOG) == []
    assert problems([A, attempt], [answered("a", 5, 4)], LOG[:1]) == []


def test_an_answer_behind_an_acknowledged_commit_is_noticed() -> None:
    assert problems([A, B], [answered("a", 5, 3.5)], LOG) == ["5 (a) was answered when 9 (b) had been acknowledged or answered"]
    assert problems([A, B], [answered("", 0, 1.5)], LOG) == [
        "0 (nothing committed) was answered when 5 (a) had been acknowledged or answered"
    ]


def test_an_answer_behind_an_earlier_answer_is_noticed_though_nothing_was_acknowledged() -> None:
    attempts = [A, asked("b", 9, 2)]
    said = ["5 (a) was answered when 9 (b) had been acknowledged or answered"]
    assert problems(attempts, [answered("b", 9, 2.5), answered("a", 5, 2.7)], LOG) == said
    assert problems(attempts, [answered("b", 9, 2.5), answered("a", 5, 2.55)], LOG) == []


def test_an_answer_that_no_commit_wrote_or_with_another_offset_is_noticed() -> None:
    assert problems([A, B], [answered("c", 7, 2)], LOG) == ["the answer 7 (c) is not in the log"]
    assert problems([A, B], [answered("b", 8, 4)], LOG) == ["the answer 8 (b) has another offset than the log"]
    assert problems([A], [], LOG) == ["the log has 9 (b), which no member asked for"]


def test_a_log_in_another_order_than_commits_were_acknowledged_is_noticed() -> None:
    log = [written("b", 9, 2.5), written("a", 5, 2.6)]
    assert problems([A, B], [], log) == ["9 (b) stands in the log before 5 (a), and was asked for when that was acknowledged"]


def test_a_lower_offset_asked_for_after_a_higher_one_was_acknowledged_is_noticed() -> None:
    """Its member should have been fenced."""
    stale = asked("z", 6, 4, 5)
    said = ["6 (z) was written over 9 (b), which was acknowledged before"]
    assert problems([A, B, stale], [answered("z", 6, 6)], [*LOG, written("z", 6, 4.5)]) == said
    assert problems([A, B, asked("z", 6, 4)], [], [*LOG, written("z", 6, 4.5)]) == said


def test_a_lower_offset_that_was_under_way_may_overwrite_a_higher_one() -> None:
    late = asked("z", 6, 2.9, 5)
    assert problems([A, B, late], [answered("z", 6, 6)], [*LOG, written("z", 6, 4.5)]) == []


def test_a_repeated_request_may_overwrite_a_higher_offset() -> None:
    assert problems([A, B], [answered("a", 5, 6)], [*LOG, written("a", 5, 4.5)]) == []


def test_what_a_member_sent_after_it_gave_the_partition_up_is_the_clients() -> None:
    stale = asked("z", 6, 4, 5, released=4.2)
    assert problems([A, B, stale], [answered("z", 6, 6)], [*LOG, written("z", 6, 4.5)]) == []
    late_and_high = asked("y", 20, 4, 5, released=4.2)
    owner = asked("x", 12, 6, 7)
    assert problems([A, B, late_and_high, owner], [], [*LOG, written("y", 20, 4.5), written("x", 12, 6.5)]) == []


def test_what_a_member_sent_before_it_gave_the_partition_up_counts() -> None:
    stale = asked("z", 6, 4, 5, released=4.6)
    assert len(problems([A, B, stale], [], [*LOG, written("z", 6, 4.5)])) == 1


def test_groups_and_partitions_are_apart() -> None:
    other = [Commit("other", 0, 1, "o", 4, 5), Commit("g", 1, 1, "o", 4, 5)]
    log = [CommitRecord("other", 0, 1, "o", 4.5), CommitRecord("g", 1, 1, "o", 4.5)]
    assert problems([A, B, *other], [], [*LOG, *log]) == []


def test_commits_are_found_among_the_other_records_of_their_topic() -> None:
    value = encode_offset_value(CommittedOffset(7, -1, "m/1\0", 1_000_000))
    records = [
        ReadRecord(0, b"\0\2group", b"..."),
        ReadRecord(1, encode_offset_key("g", "t", 3), value),
        ReadRecord(2, encode_offset_key("g", "other", 3), value),
        ReadRecord(3, encode_offset_key("g", "t", 3), None),
    ]
    assert [record[:4] for record in commits_in(records, topic="t")] == [("g", 3, 7, "m/1")]
