import pytest

from millstream.errors import UsageError
from millstream.paper.deduplicator import Deduplicator
from tests.unit.paper.records import message


def test_what_a_crash_made_a_stream_repeat_is_left_out() -> None:
    deduplicator = Deduplicator()
    seen = [message(0, 0), message(0, 1), message(1, 0), message(0, 1), message(0, 2), message(1, 0)]
    assert [(one.partition, one.offset) for one in deduplicator.filter(seen)] == [(0, 0), (0, 1), (1, 0), (0, 2)]


def test_positions_kept_with_the_results_survive_a_restart() -> None:
    first = Deduplicator()
    assert first.is_new(message(0, 7))
    assert first.positions == {("clicks", 0): 8}
    second = Deduplicator(positions=first.positions)
    assert not second.is_new(message(0, 7))
    assert second.is_new(message(0, 8))
    assert second.is_new(message(0, 0, topic="views"))


def test_what_a_producer_repeated_is_known_by_a_key_of_the_message() -> None:
    deduplicator = Deduplicator(key=lambda one: one.key)
    assert deduplicator.is_new(message(0, 0, key=b"a"))
    assert not deduplicator.is_new(message(1, 5, key=b"a"))
    assert deduplicator.is_new(message(0, 1, key=b"b"))


def test_the_keys_that_were_seen_least_recently_are_forgotten_first() -> None:
    deduplicator = Deduplicator(key=lambda one: one.key, capacity=2)
    for key in (b"a", b"b", b"a", b"c"):
        deduplicator.is_new(message(0, 0, key=key))
    assert not deduplicator.is_new(message(0, 0, key=b"a"))
    assert deduplicator.is_new(message(0, 0, key=b"b"))


def test_settings_that_make_no_sense_are_refused() -> None:
    with pytest.raises(UsageError, match="capacity"):
        Deduplicator(capacity=0)
    with pytest.raises(UsageError, match="one of the two"):
        Deduplicator(key=lambda one: one.key, positions={})
