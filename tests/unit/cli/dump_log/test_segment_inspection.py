"""Damage of every kind in the files of a partition, and what is said about it."""

from pathlib import Path

import pytest

from millstream.cli.dump_log.segment_inspection import SegmentFile, inspect_offset_index, inspect_time_index
from millstream.log.offset_index import ENTRY as OFFSET_ENTRY
from millstream.log.time_index import ENTRY as TIME_ENTRY
from millstream.wire.records import Record, encode_batch

BASE_OFFSET = 100


def batch(first: int, *, count: int = 2) -> bytes:
    return encode_batch([Record(first + number, 1_700_000_000_000 + number, b"k", b"v") for number in range(count)])


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / f"{BASE_OFFSET:020d}.log"


def problems(path: Path, content: bytes) -> list[str | None]:
    path.write_bytes(content)
    return [inspected.problem for inspected in SegmentFile(path).batches()]


def test_sound_batches_have_no_problem(path: Path) -> None:
    assert problems(path, batch(100) + batch(102) + batch(110)) == [None, None, None]


def test_an_empty_segment_is_sound(path: Path) -> None:
    assert problems(path, b"") == []


def test_every_changed_byte_under_the_crc_is_found_and_the_next_batch_is_read(path: Path) -> None:
    sound = batch(100) + batch(102)
    for position in range(21, len(batch(100))):
        damaged = bytearray(sound)
        damaged[position] ^= 0x40
        first, second = problems(path, bytes(damaged))
        assert first is not None
        assert "CRC" in first
        assert second is None


def test_every_torn_tail_is_found(path: Path) -> None:
    whole = batch(100) + batch(102)
    for size in range(len(batch(100)) + 1, len(whole)):
        first, second = problems(path, whole[:size])
        assert first is None
        assert second is not None
        assert "in the middle" in second


@pytest.mark.parametrize(("length", "words"), [(-1, "less than its header"), (0, "less than its header"), (2**31 - 1, "in the middle")])
def test_a_length_that_cannot_be_ends_the_reading(path: Path, length: int, words: str) -> None:
    content = bytearray(batch(100) + batch(102))
    content[8:12] = length.to_bytes(4, signed=True)
    (problem,) = problems(path, bytes(content))
    assert problem is not None
    assert words in problem


def test_bytes_of_something_else_are_no_batch(path: Path) -> None:
    (problem,) = problems(path, b"GET / HTTP/1.1\r\n" * 10)
    assert problem is not None
    assert "no batch" in problem


def test_an_offset_that_goes_back_is_found(path: Path) -> None:
    assert [bool(problem) for problem in problems(path, batch(99) + batch(102) + batch(103))] == [True, False, True]


def test_an_index_entry_has_to_lead_to_the_batch_that_ends_at_its_offset(path: Path) -> None:
    path.write_bytes(batch(100) + batch(102) + batch(104))
    size = len(batch(100))
    entries = [(3, size), (5, 2 * size), (6, 2 * size + 1), (9, 2 * size)]
    path.with_suffix(".index").write_bytes(b"".join(OFFSET_ENTRY.pack(*entry) for entry in entries))
    found = list(inspect_offset_index(path.with_suffix(".index")))
    assert [(entry.key, entry.value) for entry in found[:2]] == [(103, size), (105, 2 * size)]
    assert [bool(entry.problem) for entry in found] == [False, False, True, True]


def test_an_index_without_its_segment_is_checked_for_order_only(path: Path) -> None:
    path.with_suffix(".index").write_bytes(OFFSET_ENTRY.pack(3, 70) + OFFSET_ENTRY.pack(2, 140))
    assert [bool(entry.problem) for entry in inspect_offset_index(path.with_suffix(".index"))] == [False, True]


def test_the_zeros_of_an_open_index_are_no_entries_and_half_an_entry_is_damage(path: Path) -> None:
    entry = TIME_ENTRY.pack(1_700_000_000_000, 3)
    path.with_suffix(".timeindex").write_bytes(entry + bytes(10 * TIME_ENTRY.size))
    assert [(found.key, found.value, found.problem) for found in inspect_time_index(path.with_suffix(".timeindex"))] == [
        (1_700_000_000_000, 103, None)
    ]
    path.with_suffix(".timeindex").write_bytes(entry + entry[:5])
    assert [bool(found.problem) for found in inspect_time_index(path.with_suffix(".timeindex"))] == [False, True]
