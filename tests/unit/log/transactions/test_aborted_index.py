import struct
from pathlib import Path

import pytest

from millstream.files import Files
from millstream.log.transactions.aborted_index import AbortedIndex, search_all
from millstream.log.transactions.open_transactions import AbortedTransaction

ONE = AbortedTransaction(7, 10, 19, 20)
TWO = AbortedTransaction(8, 15, 30, 12)
THREE = AbortedTransaction(7, 25, 40, 41)


@pytest.fixture
def index(tmp_path: Path) -> AbortedIndex:
    index = AbortedIndex(Files(), tmp_path / "00000000000000000000.txnindex")
    for aborted in (ONE, TWO, THREE):
        index.append(aborted)
    return index


def test_an_entry_has_kafkas_34_bytes(index: AbortedIndex) -> None:
    index.complete()
    assert index.path.read_bytes() == b"".join(struct.pack(">hqqqq", 0, *aborted) for aborted in (ONE, TWO, THREE))
    assert index.size_bytes == 3 * 34


@pytest.mark.parametrize(
    ("start", "end", "expected", "is_complete"),
    [
        (0, 10, [], True),
        (0, 11, [ONE], True),
        (0, 20, [ONE], True),
        (0, 21, [ONE, TWO], True),
        (20, 21, [TWO], True),
        (30, 31, [TWO, THREE], True),
        (31, 50, [THREE], False),
        (41, 50, [], False),
    ],
)
def test_a_search_finds_what_overlaps(index: AbortedIndex, start: int, end: int, expected: list[object], is_complete: bool) -> None:
    assert index.search(start, end) == (expected, is_complete)


def test_a_search_goes_through_many_that_ended_while_an_older_one_was_open(tmp_path: Path) -> None:
    index = AbortedIndex(Files(), tmp_path / "a")
    all_of_them = [AbortedTransaction(number % 7, 10 * number, 10 * number + 25, 0) for number in range(1000)]
    for aborted in all_of_them:
        index.append(aborted)
    for start, end in [(0, 1), (0, 9999), (1005, 1006), (5000, 6000), (9900, 12_000), (10_016, 10_017)]:
        expected = [one for one in all_of_them if one.last_offset >= start and one.first_offset < end]
        assert index.search(start, end) == (expected, False)


def test_a_search_goes_on_in_later_segments(index: AbortedIndex, tmp_path: Path) -> None:
    later, last = AbortedIndex(Files(), tmp_path / "b"), AbortedIndex(Files(), tmp_path / "c")
    later.append(AbortedTransaction(9, 35, 60, 61))
    last.append(AbortedTransaction(9, 62, 70, 71))
    assert search_all([index, later, last], 32, 50) == ([THREE, (9, 35, 60, 61)], True)


def test_a_long_index_is_searched_on_the_disk(tmp_path: Path) -> None:
    path = tmp_path / "long.txnindex"
    written = AbortedIndex(Files(), path)
    for number in range(1000):
        written.append(AbortedTransaction(number % 7, number * 10, number * 10 + 9, number * 10 + 10))
    written.complete()
    index = AbortedIndex(Files(), path, written=1000)
    assert [aborted.first_offset for aborted in index.search(5005, 5035).found] == [5000, 5010, 5020, 5030]
    index.truncate_from(5009)
    assert (len(index), index.last_key, path.stat().st_size) == (500, 4999, 500 * 34)


def test_entries_that_cannot_be_of_the_segment_are_noticed(index: AbortedIndex, tmp_path: Path) -> None:
    assert index.is_sound(base_offset=19)
    assert not index.is_sound(base_offset=20)
    index.add(1, 7, 50, 60, 61)
    assert not index.is_sound(base_offset=0)
    wrong = AbortedIndex(Files(), tmp_path / "wrong")
    wrong.append(AbortedTransaction(7, 30, 20, 21))
    assert not wrong.is_sound(base_offset=0)
