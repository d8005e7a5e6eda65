from millstream.log.compaction.batch_cleaning import RecordColumns
from millstream.log.config import LONG_MAX
from millstream.log.latest_offsets import ENTRY_BYTES, LatestOffsets


def records(*keys: bytes | None, base_offset: int) -> RecordColumns:
    return RecordColumns(list(keys), list(range(base_offset, base_offset + len(keys))), [], [], [])


def test_the_latest_offset_of_a_key_counts() -> None:
    latest = LatestOffsets(first_dirty_offset=10, max_bytes=1 << 20)
    assert latest.latest_offset == 9
    assert latest.add(records(b"a", b"b", b"a", base_offset=10), from_offset=10)
    assert latest.add(records(b"b", base_offset=13), from_offset=10)
    latest.reach(13)
    latest.reach(5)
    assert (latest.by_key[b"a"], latest.by_key[b"b"], latest.latest_offset, len(latest)) == (12, 13, 13, 2)


def test_records_before_the_dirty_part_do_not_count() -> None:
    latest = LatestOffsets(first_dirty_offset=11, max_bytes=1 << 20)
    assert latest.add(records(b"a", b"b", base_offset=10), from_offset=11)
    assert b"a" not in latest.by_key
    assert latest.by_key[b"b"] == 11


def test_a_record_without_a_key_is_never_the_latest() -> None:
    latest = LatestOffsets(first_dirty_offset=0, max_bytes=1 << 20)
    latest.add(records(None, b"a", base_offset=0), from_offset=0)
    assert latest.by_key[None] == LONG_MAX


def test_what_does_not_fit_is_not_taken_except_for_the_first_batch() -> None:
    latest = LatestOffsets(first_dirty_offset=0, max_bytes=2 * ENTRY_BYTES)
    assert latest.add(records(b"a", b"b", b"c", base_offset=0), from_offset=0)
    assert not latest.add(records(b"d", base_offset=3), from_offset=0)
    assert latest.is_full
    assert b"d" not in latest.by_key
