import pytest

from millstream.log.leader_epochs import LeaderEpochs


def epochs(*entries: tuple[int, int]) -> LeaderEpochs:
    return LeaderEpochs(list(entries))


def test_epoch_is_noted_once_with_its_first_offset() -> None:
    known = epochs()
    known.assign(0, 0)
    known.assign(0, 10)
    known.assign(2, 15)
    assert known.entries == [(0, 0), (2, 15)]
    assert (known.latest, known.is_dirty) == (2, True)


def test_entry_that_contradicts_others_removes_them() -> None:
    known = epochs((1, 0), (2, 10), (3, 20))
    known.assign(4, 20)
    assert known.entries == [(1, 0), (2, 10), (4, 20)]
    known.assign(5, 5)
    assert known.entries == [(1, 0), (5, 5)]


@pytest.mark.parametrize(
    ("asked", "answer"),
    [(-1, (-1, -1)), (0, (0, 0)), (1, (1, 10)), (2, (2, 20)), (3, (2, 20)), (4, (4, 99)), (5, (-1, -1))],
)
def test_end_of_an_epoch_is_the_start_of_the_next_known_one(asked: int, answer: tuple[int, int]) -> None:
    assert epochs((1, 0), (2, 10), (4, 20)).end_of(asked, log_end_offset=99) == answer


def test_no_epoch_is_known_in_an_empty_log() -> None:
    assert epochs().end_of(0, log_end_offset=0) == (-1, -1)
    assert epochs().latest == -1


def test_epoch_of_an_offset() -> None:
    known = epochs((1, 5), (2, 10))
    assert [known.epoch_of(offset) for offset in (4, 5, 9, 10, 99)] == [-1, 1, 1, 2, 2]


def test_truncation_at_the_end_drops_epochs_without_records() -> None:
    known = epochs((1, 0), (2, 10), (3, 20))
    known.truncate_from_end(20)
    assert known.entries == [(1, 0), (2, 10)]
    known.truncate_from_end(5)
    assert known.entries == [(1, 0)]


def test_truncation_at_the_start_keeps_the_epoch_the_log_starts_in() -> None:
    known = epochs((1, 0), (2, 10), (3, 20))
    known.truncate_from_start(15)
    assert known.entries == [(2, 15), (3, 20)]
    known.truncate_from_start(15)
    known.truncate_from_start(3)
    assert known.entries == [(2, 15), (3, 20)]


def test_file_is_kafkas_and_reads_back() -> None:
    known = epochs((0, 0), (3, 1517))
    assert known.render() == b"0\n2\n0 0\n3 1517\n"
    assert LeaderEpochs.parse(known.render()).entries == known.entries


@pytest.mark.parametrize(
    "content", [b"", b"1\n0\n", b"0\n2\n0 0\n", b"0\n1\nx y\n", b"0\n1\n1 2 3\n", b"0\n2\n3 0\n1 5\n", b"0\n2\n1 5\n2 5\n"]
)
def test_damaged_file_is_noticed(content: bytes) -> None:
    with pytest.raises(ValueError, match=r"version|lines|grow|invalid|unpack"):
        LeaderEpochs.parse(content)
