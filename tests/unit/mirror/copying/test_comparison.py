import pytest

from millstream.mirror.copying.comparison import Batch, compare, compare_compacted
from millstream.mirror.trouble import Stopped
from millstream.wire.batch import BatchHeader, read_header
from tests.batches import encode_batch, encode_block, encode_record


def header(at: int, value: bytes = b"x", *, epoch: int = 0) -> BatchHeader:
    return read_header(encode_batch([value], timestamp=5, base_offset=at, leader_epoch=epoch))


def test_as_many_batches_are_compared_as_both_have_below_the_end() -> None:
    source = [header(5, epoch=7), header(6, epoch=8), header(9, b"later"), header(12)]
    assert compare(source, [header(5), header(6)], end=100) == (7, 8)
    assert compare(source, [header(5), header(6), header(9, b"other")], end=9) == (7, 8)
    assert compare(source, [], end=9) is None


@pytest.mark.parametrize("other", [header(6, b"y"), header(7), read_header(encode_batch([b"x", b"x"], timestamp=5, base_offset=6))])
def test_other_bytes_or_offsets_stop_the_partition(other: BatchHeader) -> None:
    with pytest.raises(Stopped, match="from offset 6 on the target has other records"):
        compare([header(5), header(6)], [header(5), other], end=100)


def batch(at: int, *values: bytes | None, epoch: int = 0) -> Batch:
    """One with records of these values; where it is None compaction has dropped the record."""
    kept = [(number, value) for number, value in enumerate(values) if value is not None]
    records = b"".join(encode_record(number, value, key=b"k") for number, value in kept)
    encoded = encode_block(
        records, len(kept), timestamp=5, max_timestamp=5, base_offset=at, last_offset_delta=len(values) - 1, leader_epoch=epoch
    )
    return read_header(encoded), memoryview(encoded)


def test_of_compacted_logs_only_records_are_compared_that_both_still_have() -> None:
    source = [batch(5, b"a", None, b"c", epoch=3), batch(20, b"x", epoch=4), batch(30, b"later")]
    target = [batch(2, b"gone"), batch(5, None, b"b", b"c"), batch(20, b"x")]
    assert compare_compacted(source, target, end=21) == (21, 4)
    assert compare_compacted(source, target, end=20) == (8, 3)
    assert compare_compacted(source, [batch(9, b"other")], end=100) is None


@pytest.mark.parametrize("other", [batch(5, b"a", None, b"d"), batch(7, b"d", b"after"), batch(6, None, b"d")])
def test_another_record_at_the_same_offset_of_a_compacted_log_stops_the_partition(other: Batch) -> None:
    with pytest.raises(Stopped, match="from offset 7 on the target has other records"):
        compare_compacted([batch(5, b"a", b"b", b"c", b"after")], [other], end=100)
