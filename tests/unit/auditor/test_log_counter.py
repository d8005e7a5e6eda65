from collections.abc import Sequence

import pytest

from millstream.audit.offset_set import OffsetSet
from millstream.audit.reports.report import NO_TIME
from millstream.auditor.log_counter import HAS_KERNELS, LogCounter
from millstream.topic_partition import TopicPartition
from millstream.wire.batch import CONTROL, LOG_APPEND_TIME, TRANSACTIONAL
from millstream.wire.compression import Codec
from millstream.wire.records import ProducerStamp, Record, encode_batch

PLACE = TopicPartition("orders", 3)
BUCKET_MS = 600_000
WAYS = [pytest.param(False, id="walker"), pytest.param(True, id="kernels", marks=pytest.mark.skipif(not HAS_KERNELS, reason="no numba"))]
COMMIT, ABORT = b"\0\0\0\1", b"\0\0\0\0"


def batch(start: int, times: Sequence[int], *, codec: Codec = Codec.NONE, flags: int = 0, producer: int = -1, gap: int = 1) -> bytes:
    records = [Record(start + number * gap, time, b"key", b"value") for number, time in enumerate(times)]
    stamp = ProducerStamp(producer, 0, 0) if producer >= 0 else ProducerStamp()
    return encode_batch(records, codec=codec, flags=flags, producer=stamp)


def marker(offset: int, kind: bytes, producer: int) -> bytes:
    return encode_batch([Record(offset, 5, kind, b"\0" * 6)], flags=CONTROL | TRANSACTIONAL, producer=ProducerStamp(producer, 0, -1))


def counted(
    *batches: bytes, start: int = 0, end: int = 1 << 40, use_kernels: bool = False, aborted: Sequence[tuple[int, int]] = ()
) -> tuple[dict[int, tuple[int, int, OffsetSet | None]], LogCounter]:
    counter = LogCounter(PLACE, start=start, end=end, bucket_ms=BUCKET_MS, use_kernels=use_kernels)
    counter.count(memoryview(b"".join(batches)), aborted)
    counts = {bucket: tally.counts(bucket, 3)[0] for bucket, tally in counter.tallies.items()}
    return {bucket: (count.count, count.bytes, count.offsets) for bucket, count in counts.items()}, counter


@pytest.mark.parametrize("use_kernels", WAYS)
@pytest.mark.parametrize("codec", [Codec.NONE, Codec.LZ4, Codec.ZSTD])
def test_each_record_is_in_the_bucket_of_its_own_time(use_kernels: bool, codec: Codec) -> None:
    # The second record is earlier than the first, which is the time in the header.
    found, counter = counted(batch(10, [600_000, 5, 600_001, -1], codec=codec), batch(14, [7, 1_200_000]), use_kernels=use_kernels)
    assert found == {
        600_000: (2, 16, OffsetSet.of((10, 11), (12, 13))),
        0: (2, 16, OffsetSet.of((11, 12), (14, 15))),
        NO_TIME: (1, 8, OffsetSet.of((13, 14))),
        1_200_000: (1, 8, OffsetSet.of((15, 16))),
    }
    assert counter.next_offset == 16


@pytest.mark.parametrize("use_kernels", WAYS)
def test_what_compaction_left_is_counted_without_its_gaps(use_kernels: bool) -> None:
    found, _ = counted(batch(10, [5, 5, 5], gap=3), use_kernels=use_kernels)
    assert found == {0: (3, 24, OffsetSet.of((10, 11), (13, 14), (16, 17)))}


@pytest.mark.parametrize("use_kernels", WAYS)
def test_only_offsets_of_the_range_are_counted(use_kernels: bool) -> None:
    found, counter = counted(batch(0, [5] * 10), batch(10, [5] * 10), start=4, end=13, use_kernels=use_kernels)
    assert found == {0: (9, 72, OffsetSet.of((4, 13)))}
    assert counter.next_offset == 13


def test_where_the_broker_set_the_time_the_header_is_enough() -> None:
    damaged = bytearray(encode_batch([Record(n, 5, b"k", b"v") for n in range(9)], flags=LOG_APPEND_TIME, max_timestamp=600_001))
    damaged[70:] = b"\xff" * len(damaged[70:])
    found, _ = counted(bytes(damaged))
    assert found[600_000][0] == 9
    assert found[600_000][2] == OffsetSet.of((0, 9))


@pytest.mark.parametrize("use_kernels", WAYS)
def test_markers_and_aborted_records_are_counted_apart(use_kernels: bool) -> None:
    batches = [
        batch(0, [5, 5], flags=TRANSACTIONAL, producer=7),
        batch(2, [5], flags=TRANSACTIONAL, producer=8),
        marker(3, ABORT, 7),
        marker(4, COMMIT, 8),
        batch(5, [5], flags=TRANSACTIONAL, producer=7),
        marker(6, COMMIT, 7),
    ]
    found, counter = counted(*batches, use_kernels=use_kernels, aborted=[(7, 0)])
    assert found == {0: (2, 16, OffsetSet.of((2, 3), (5, 6)))}
    assert (counter.tallies[0].control, counter.tallies[0].aborted) == (3, 2)


@pytest.mark.parametrize("use_kernels", WAYS)
def test_a_damaged_batch_is_said_and_counted_as_malformed_and_the_rest_goes_on(use_kernels: bool, caplog: pytest.LogCaptureFixture) -> None:
    damaged = bytearray(batch(2, [5, 5]))
    damaged[-1] ^= 1
    found, counter = counted(batch(0, [5, 5]), bytes(damaged), batch(4, [5]), use_kernels=use_kernels)
    assert found == {0: (3, 24, OffsetSet.of((0, 2), (4, 5)))}
    assert (counter.tallies[0].malformed, counter.next_offset) == (2, 5)
    assert "the batch at offset 2 of" in caplog.text


def test_a_batch_that_was_cut_off_is_left_for_the_next_fetch() -> None:
    found, counter = counted(batch(0, [5]), batch(1, [5])[:-3])
    assert (found, counter.next_offset) == ({0: (1, 8, OffsetSet.of((0, 1)))}, 1)


@pytest.mark.parametrize("use_kernels", WAYS)
def test_a_range_in_two_parts_counts_what_it_counts_as_a_whole(use_kernels: bool) -> None:
    log = [batch(0, [5, 600_000] * 3), batch(6, [5] * 4, flags=TRANSACTIONAL, producer=7), marker(10, ABORT, 7), batch(11, [5])]
    whole = counted(*log, use_kernels=use_kernels, aborted=[(7, 6)])[1]
    for cut in range(1, 12):
        parts = [counted(*log, start=start, end=end, use_kernels=use_kernels, aborted=[(7, 6)])[1] for start, end in ((0, cut), (cut, 12))]
        for name in ("count", "bytes", "control", "aborted"):
            sums = {
                bucket: sum(getattr(part.tallies[bucket], name) for part in parts if bucket in part.tallies) for bucket in whole.tallies
            }
            assert sums == {bucket: getattr(tally, name) for bucket, tally in whole.tallies.items()}, (name, cut)
