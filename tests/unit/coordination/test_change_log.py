"""The watched list of changes."""

import pytest

from millstream.coordination.change_log import MAX_BYTES, MAX_CHANGES, Change, ChangeLog, Touched


def test_what_came_after_a_number_is_found() -> None:
    log = ChangeLog().with_changes([("orders", None), ("orders", (0, 3)), ("payments", (1,)), ("orders", (3, 4))])
    assert log.last == 4
    assert log.since(1) == {"orders": Touched(False, frozenset({0, 3, 4})), "payments": Touched(False, frozenset({1}))}
    assert log.since(3) == {"orders": Touched(False, frozenset({3, 4}))}
    assert log.since(0) == {"orders": Touched(True, frozenset({0, 3, 4})), "payments": Touched(False, frozenset({1}))}
    assert log.since(4) == {}


def test_who_was_away_for_too_long_reads_everything() -> None:
    log = ChangeLog()
    for some in (MAX_CHANGES, 2):
        log = log.with_changes([(f"topic-{number}", None) for number in range(some)])
    assert len(log.changes) == MAX_CHANGES
    assert log.since(1) is None
    assert log.since(2) is not None
    assert log.since(log.last + 1) is None


def test_the_list_stays_small_whatever_is_named() -> None:
    log = ChangeLog().with_changes([("many", tuple(range(MAX_BYTES // 7 - 5))), ("few", (1, 2))])
    assert [change.topic for change in log.changes] == ["few"]
    assert log.since(0) is None
    alone = ChangeLog().with_changes([("too many", tuple(range(MAX_BYTES // 7)))])
    assert (alone.last, alone.changes, alone.since(0)) == (1, (), None)
    long_names = ChangeLog(2**60).with_changes([("x" * 249, tuple(range(1000, 1003)))] * MAX_CHANGES)
    assert MAX_BYTES / 2 < len(long_names.encode()) <= MAX_BYTES


def test_old_changes_are_forgotten_but_for_the_last_ones() -> None:
    log = ChangeLog().with_changes([(f"topic-{number}", None) for number in range(1, 10)])
    assert [change.number for change in log.forgetting(6, keep=2).changes] == [7, 8, 9]
    assert [change.number for change in log.forgetting(6, keep=5).changes] == [5, 6, 7, 8, 9]
    assert log.forgetting(0, keep=2) is log
    assert log.forgetting(9, keep=0) == ChangeLog(9, ())


def test_it_is_read_as_it_was_written() -> None:
    log = ChangeLog(7, (Change(6, "orders", (0, 3)), Change(7, "payments")))
    assert ChangeLog.decode(log.encode()) == log
    assert ChangeLog.decode(b"") == ChangeLog(), "a new znode"


@pytest.mark.parametrize(
    "content",
    [
        b"[]",
        b"{}",
        b'{"last": -1, "changes": []}',
        b'{"last": 1, "changes": {}}',
        b'{"last": 1, "changes": [[1, "a"]]}',
        b'{"last": 1, "changes": [[1, "a", [-1]]]}',
        b'{"last": 1, "changes": [[1, "a", [true]]]}',
        b'{"last": 3, "changes": [[1, "a", null], [3, "a", null]]}',
        b'{"last": 3, "changes": [[1, "a", null], [2, "a", null]]}',
    ],
)
def test_what_we_would_not_have_written_is_refused(content: bytes) -> None:
    with pytest.raises(ValueError, match=r"."):
        ChangeLog.decode(content)
