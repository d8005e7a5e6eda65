"""The latest offset of each key, and which batches have none of them."""

import pytest

from millstream.log.compaction import latest_offsets
from millstream.log.compaction.batch_cleaning import BatchKeys
from millstream.log.compaction.latest_offsets import ENTRY_BYTES, LatestOffsets
from millstream.log.config import LONG_MAX
from millstream.wire.batch import BatchHeader, read_header
from millstream.wire.records import encode_batch

ROOMY = 1 << 20


def header_of(base_offset: int, count: int) -> BatchHeader:
    return read_header(encode_batch([], base_offset=base_offset, last_offset_delta=count - 1))


def add(latest: LatestOffsets, base_offset: int, *keys: bytes | None) -> bool:
    """Add a batch with these keys."""
    offsets = range(base_offset, base_offset + len(keys))
    return latest.add(header_of(base_offset, len(keys)), BatchKeys(keys, offsets, has_tombstones=False))


def test_the_latest_offset_of_a_key_counts() -> None:
    latest = LatestOffsets(first_dirty_offset=10, max_bytes=ROOMY)
    assert latest.latest_offset == 9
    assert add(latest, 10, b"a", b"b", b"a")
    assert add(latest, 13, b"b")
    latest.reach(5)
    assert (latest.by_key[b"a"], latest.by_key[b"b"], latest.latest_offset, len(latest)) == (12, 13, 13, 2)


def test_records_before_the_dirty_part_do_not_count() -> None:
    latest = LatestOffsets(first_dirty_offset=11, max_bytes=ROOMY)
    assert add(latest, 10, b"a", b"b")
    assert b"a" not in latest.by_key
    assert latest.by_key[b"b"] == 11


def test_a_record_without_a_key_is_never_the_latest() -> None:
    latest = LatestOffsets(first_dirty_offset=0, max_bytes=ROOMY)
    add(latest, 0, None, b"a")
    assert latest.by_key[None] == LONG_MAX


def test_what_does_not_fit_is_not_taken_except_for_the_first_batch() -> None:
    latest = LatestOffsets(first_dirty_offset=0, max_bytes=2 * ENTRY_BYTES)
    assert add(latest, 0, b"a", b"b", b"c")
    assert not add(latest, 3, b"d")
    assert latest.is_full
    assert b"d" not in latest.by_key
    assert latest.latest_offset == 2


def test_what_fits_only_because_a_key_comes_twice_is_taken() -> None:
    latest = LatestOffsets(first_dirty_offset=0, max_bytes=4 * ENTRY_BYTES)
    assert add(latest, 0, b"a", b"b")
    assert add(latest, 2, b"c", b"c")
    assert not add(latest, 4, b"d", b"d")


def test_batches_with_tombstones_are_known_unless_there_are_very_many(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(latest_offsets, "MAX_REMEMBERED", 2)
    latest = LatestOffsets(first_dirty_offset=0, max_bytes=ROOMY)
    add(latest, 0, b"a")
    for base_offset in (1, 2):
        assert latest.add(header_of(base_offset, 1), BatchKeys([b"a"], [base_offset], has_tombstones=True))
    assert [latest.has_tombstones(header_of(base_offset, 1)) for base_offset in (0, 1, 2)] == [False, True, True]
    latest.add(header_of(3, 1), BatchKeys([b"a"], [3], has_tombstones=True))
    assert latest.has_tombstones(header_of(0, 1))


def test_what_is_left_of_a_batch_are_the_keys_that_did_not_come_again() -> None:
    latest = LatestOffsets(first_dirty_offset=10, max_bytes=ROOMY)
    for base_offset, keys in ((10, (b"a", b"b")), (12, (b"c", b"a")), (14, (b"b", b"a")), (16, (None,))):
        add(latest, base_offset, *keys)
    latest.complete()
    assert [latest.latest_in(header_of(base_offset, 2)) for base_offset in (10, 12, 14)] == [[], [12], [14, 15]]
    assert latest.latest_in(header_of(16, 1)) == []


def test_nothing_is_said_of_batches_that_were_not_read_whole() -> None:
    latest = LatestOffsets(first_dirty_offset=11, max_bytes=ROOMY)
    add(latest, 10, b"a", b"a")
    latest.leave_out(header_of(12, 2))
    add(latest, 14, b"a")
    latest.complete()
    assert latest.latest_in(header_of(10, 2)) is None, "it begins in the clean part"
    assert latest.latest_in(header_of(12, 2)) is None, "its keys did not count"
    assert latest.latest_in(header_of(15, 1)) is None, "it comes after what was read"


def test_where_very_many_batches_did_not_count_all_are_looked_at(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(latest_offsets, "MAX_REMEMBERED", 2)
    latest = LatestOffsets(first_dirty_offset=0, max_bytes=ROOMY)
    add(latest, 0, b"a")
    for base_offset in (1, 2):
        latest.leave_out(header_of(base_offset, 1))
    add(latest, 3, b"a")
    latest.complete()
    assert latest.latest_in(header_of(0, 1)) == []
    latest.leave_out(header_of(4, 1))
    assert latest.latest_in(header_of(0, 1)) is None
