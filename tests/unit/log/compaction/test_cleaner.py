"""Compaction of a whole log, in one process: what stays, where it stays, and that everything else goes on as before."""

from pathlib import Path

import pytest
from crc32c import crc32c

from millstream.errors import CorruptMessage, StorageError
from millstream.files import Files
from millstream.log.compaction.cleaner import Cleaner
from millstream.log.compaction.cleaning import Cleaning, cleaning_extent
from millstream.log.compaction.cleaning_order import CleanedGroup
from millstream.log.compaction.latest_offsets import ENTRY_BYTES
from millstream.log.config import LONG_MAX
from millstream.log.log import Log
from millstream.log.retention import apply_retention
from millstream.wire.batch import HEADER_SIZE, read_header, split_batches
from millstream.wire.compression import Codec
from millstream.wire.records import Record, decode_records, encode_batch
from tests.unit.log.compacted import compact, extent_of, pairs, records_of, stored_batches, write
from tests.unit.log.conftest import NOW_MS, OpenLog
from tests.unit.log.partition import offset_for_timestamp, offset_of_max_timestamp, read_bytes

COMPACT: dict[str, object] = {"cleanup_policy": "compact", "segment_bytes": 600, "index_interval_bytes": 150}
DAY_MS = 86_400_000


def fill(log: Log, count: int, *, keys: int = 5, codec: Codec = Codec.NONE) -> dict[bytes, tuple[int, bytes]]:
    """Write updates of a few keys, two per batch, and seal them; the latest offset and value of each key."""
    latest = {}
    for number in range(count):
        one, two = b"k%d" % (number % keys), b"k%d" % ((number * 7 + 1) % keys)
        base = write(log, (one, b"v%d" % number), (two, b"w%d" % number), codec=codec, timestamp=NOW_MS + number)
        latest[one] = (base, b"v%d" % number)
        latest[two] = (base + 1, b"w%d" % number)
    log.roll(now_ms=NOW_MS)
    return latest


@pytest.mark.parametrize("codec", list(Codec))
def test_the_latest_value_of_each_key_stays_at_its_offset(open_log: OpenLog, codec: Codec) -> None:
    log = open_log(**COMPACT)
    latest = fill(log, 40, codec=codec)
    end, before = log.log_end_offset, log.size_bytes
    result = compact(log)
    assert {key: (offset, value) for offset, key, value in pairs(log)} == latest
    assert len(pairs(log)) == len(latest) == result.records_after == result.key_count
    assert result.records_before == 80
    assert (log.log_start_offset, log.log_end_offset, result.end_offset) == (0, end, end)
    assert log.size_bytes < before / 3


def test_segments_are_merged_and_their_indexes_work(open_log: OpenLog) -> None:
    log = open_log(**COMPACT)
    fill(log, 100, keys=30)
    count = len(log.segment_base_offsets)
    expected = records_of(log)
    for _ in range(4):
        compact(log)  # Segments are grouped by what they were before: it takes some rounds until they are all full again.
    assert len(log.segment_base_offsets) < count / 2
    left = records_of(log)
    assert set(left) <= set(expected)
    for offset in range(log.log_end_offset):
        assert first_record_from(log, offset) == next((record for record in left if record.offset >= offset), None)
    for record in left:
        found_time = offset_for_timestamp(log, record.timestamp)
        assert found_time is not None
        first = next(one for one in left if one.timestamp >= record.timestamp)
        assert (found_time.offset, found_time.timestamp) == (first.offset, first.timestamp)


def first_record_from(log: Log, offset: int) -> Record | None:
    """What a consumer at this offset gets first: it goes on behind a batch that holds nothing for it."""
    while offset < log.log_end_offset:
        for _, batch in split_batches(read_bytes(log, offset)):
            for record in decode_records(batch):
                if record.offset >= offset:
                    return record
            offset = read_header(batch).next_offset
    return None


def test_compacting_again_only_merges(open_log: OpenLog) -> None:
    log = open_log(**COMPACT)
    fill(log, 40)
    compact(log)
    before = records_of(log)
    for _ in range(3):
        compact(log)
        assert records_of(log) == before
    batches = list(stored_batches(log))
    compact(log)
    assert list(stored_batches(log)) == batches


def test_what_comes_later_supersedes_what_is_clean(open_log: OpenLog) -> None:
    log = open_log(**COMPACT)
    fill(log, 20)
    compact(log)
    latest = fill(log, 20)
    result = compact(log)
    assert result.bytes_read < 2 * log.size_bytes + 20 * 100 * 2
    assert {key: (offset, value) for offset, key, value in pairs(log)} == latest
    assert len(pairs(log)) == len(latest)


def test_the_active_segment_and_what_is_not_committed_stay(open_log: OpenLog) -> None:
    log = open_log(**COMPACT)
    fill(log, 10)
    bases = log.segment_base_offsets
    committed = bases[2]
    write(log, (b"k0", b"new"))
    rest = [pair for pair in pairs(log) if pair[0] >= committed]
    compact(log, high_watermark=committed + 1)
    assert [pair for pair in pairs(log) if pair[0] >= committed] == rest
    assert log.directory.cleaned_offsets[log.topic_partition] == committed


def test_what_is_not_on_the_disk_stays(open_log: OpenLog) -> None:
    log = open_log(**COMPACT)
    fill(log, 40)
    assert cleaning_extent(log, NOW_MS, high_watermark=log.log_end_offset).segment_count == 0
    assert extent_of(log).segment_count > 5


def test_a_deleted_key_vanishes_after_its_marker_was_kept_for_a_while(open_log: OpenLog) -> None:
    log = open_log(**COMPACT, delete_retention_ms=DAY_MS)
    write(log, (b"a", b"1"), (b"b", b"2"))
    log.roll(now_ms=NOW_MS)
    write(log, (b"a", None))
    log.roll(now_ms=NOW_MS)
    compact(log)
    assert pairs(log) == [(1, b"b", b"2"), (2, b"a", None)]
    assert [record.timestamp for record in records_of(log)] == [NOW_MS, NOW_MS]
    compact(log, now_ms=NOW_MS + DAY_MS - 1)
    assert len(pairs(log)) == 2
    compact(log, now_ms=NOW_MS + DAY_MS)
    assert pairs(log) == [(1, b"b", b"2")]
    assert log.log_end_offset == 3


def test_with_little_memory_it_takes_several_rounds(open_log: OpenLog) -> None:
    log = open_log(**COMPACT)
    latest = fill(log, 60, keys=20)
    rounds = 0
    while log.directory.cleaned_offsets.get(log.topic_partition, 0) < log.log_end_offset:
        before = log.directory.cleaned_offsets.get(log.topic_partition, 0)
        result = compact(log, memory=8 * ENTRY_BYTES)
        assert before < result.end_offset
        assert result.key_count <= 8
        rounds += 1
    assert rounds > 3
    assert {key: (offset, value) for offset, key, value in pairs(log)} == latest


def test_a_batch_larger_than_the_memory_is_compacted_nevertheless(open_log: OpenLog) -> None:
    log = open_log(**COMPACT | {"segment_bytes": 5000})
    for _ in range(2):
        write(log, *((b"%d" % number, b"v") for number in range(50)))
        log.roll(now_ms=NOW_MS)
    while log.directory.cleaned_offsets.get(log.topic_partition, 0) < log.log_end_offset:
        compact(log, memory=0)
    assert [pair[0] for pair in pairs(log)] == list(range(50, 100))


def test_sequences_of_producers_survive_compaction_and_a_crash(open_log: OpenLog) -> None:
    log = open_log(**COMPACT)
    for number in range(10):
        write(log, (b"k", b"%d" % number), (b"l", b"%d" % number), sequence=2 * number)
    write(log, (b"k", b"last"), (b"l", b"last"))
    log.roll(now_ms=NOW_MS)
    compact(log)
    assert len(pairs(log)) == 2
    log.abandon()
    for snapshot in log.path.glob("*.snapshot"):
        snapshot.unlink()
    again = open_log(**COMPACT, is_clean=False)
    entry = next(iter(again.producers))
    assert (entry.producer_id, entry.last_sequence, entry.last_offset) == (7, 19, 19)
    assert write(again, (b"k", b"next"), sequence=20) == 22


def test_a_batch_whose_inside_is_broken_is_kept_as_it_is_and_reported(open_log: OpenLog) -> None:
    log = open_log(**COMPACT | {"cleanup_policy": "delete"})
    write(log, (b"a", b"1"), (b"b", b"1"))
    broken = bytearray(encode_batch([Record(0, NOW_MS, b"a", b"2"), Record(1, NOW_MS, b"c", b"2")]))
    broken[62 + (broken[61] >> 1)] = 0x7E  # the size of the second record
    whole = encode_batch([Record(0, 0, b"x", b"")])
    from crc32c import crc32c  # the CRC is right: only the inside is wrong

    broken[17:21] = crc32c(bytes(broken[21:])).to_bytes(4)
    assert len(whole) > 61
    log.append_as_leader(bytes(broken), leader_epoch=0, now_ms=NOW_MS)
    write(log, (b"b", b"3"))
    log.roll(now_ms=NOW_MS)
    result = compact(log)
    assert result.broken_count == 1
    assert "offset 2" in result.broken[0]
    batches = list(stored_batches(log))
    assert batches[1][61:] == bytes(broken[61:])
    kept = [(record.key, record.value) for batch in (batches[0], batches[2]) for record in decode_records(batch)]
    assert kept == [(b"a", b"1"), (b"b", b"3")]


def test_rotten_bytes_are_kept_and_a_lost_structure_ends_the_compaction(open_log: OpenLog) -> None:
    log = open_log(**COMPACT)
    fill(log, 10)
    path = log.path / f"{0:020d}.log"
    content = bytearray(path.read_bytes())
    content[70] ^= 0xFF
    path.write_bytes(content)
    assert compact(log).broken_count == 1
    fill(log, 10)
    path = log.path / f"{log.segment_base_offsets[1]:020d}.log"
    content = bytearray(path.read_bytes())
    content[16] = 9
    path.write_bytes(content)
    before = pairs_that_can_be_read(log)
    with pytest.raises(CorruptMessage):
        compact(log)
    assert pairs_that_can_be_read(log) == before


def pairs_that_can_be_read(log: Log) -> int:
    return sum(path.stat().st_size for path in log.path.glob("*.log"))


def test_a_reader_keeps_the_file_that_it_is_sent(open_log: OpenLog) -> None:
    log = open_log(**COMPACT)
    fill(log, 40)
    region = log.read(0, max_bytes=1 << 20, limit_offset=log.log_end_offset)
    assert region is not None
    before = Files().pread(region.handle, region.length, region.position)
    compact(log)
    assert Files().pread(region.handle, region.length, region.position) == before


def test_appends_go_on_between_the_swaps(open_log: OpenLog) -> None:
    log = open_log(**COMPACT)
    fill(log, 60, keys=40)
    extent = extent_of(log)
    cleaning = Cleaning(log, extent, now_ms=NOW_MS, dedupe_buffer_bytes=1 << 20, io_buffer_bytes=500)
    written = []
    for number, answer in enumerate(Cleaner(Files(), cleaning.order).run()):
        written.append(write(log, (b"new%d" % number, b"x" * 300)))
        if isinstance(answer, CleanedGroup):
            cleaning.swap_in(answer, now_ms=NOW_MS)
    assert len(written) > 2
    assert [offset for offset, key, _ in pairs(log) if key and key.startswith(b"new")] == written


def test_segments_that_retention_dropped_meanwhile_do_not_come_back(open_log: OpenLog) -> None:
    log = open_log(**COMPACT | {"cleanup_policy": "compact,delete", "retention_ms": -1})
    fill(log, 40)
    extent = extent_of(log)
    cleaning = Cleaning(log, extent, now_ms=NOW_MS, dedupe_buffer_bytes=1 << 20, io_buffer_bytes=500)
    groups = [answer for answer in Cleaner(Files(), cleaning.order).run() if isinstance(answer, CleanedGroup)]
    log.delete_records_before(log.segment_base_offsets[2])
    apply_retention(log, NOW_MS, high_watermark=log.log_end_offset)
    before = pairs(log)
    with pytest.raises(StorageError, match="while it was compacted"):
        cleaning.swap_in(groups[0], now_ms=NOW_MS)
    assert pairs(log) == before
    compact(log)
    assert log.log_start_offset == before[0][0]


def test_a_truncation_ends_the_compaction_and_lowers_the_checkpoint(open_log: OpenLog) -> None:
    log = open_log(**COMPACT)
    fill(log, 40)
    compact(log)
    assert log.directory.cleaned_offsets[log.topic_partition] == 80
    fill(log, 10)
    extent = extent_of(log)
    cleaning = Cleaning(log, extent, now_ms=NOW_MS, dedupe_buffer_bytes=1 << 20, io_buffer_bytes=500)
    log.truncate_to(72)
    assert cleaning.is_void
    assert not cleaning.complete(100)
    assert log.directory.cleaned_offsets[log.topic_partition] <= 72
    with pytest.raises(StorageError):
        cleaning.swap_in(CleanedGroup([0], 1), now_ms=NOW_MS)


def test_the_file_keeps_the_age_of_what_it_stands_for(open_log: OpenLog) -> None:
    log = open_log(**COMPACT)
    fill(log, 40)
    for path in log.path.glob("*.log"):
        Files().set_modified(path, 1_600_000_000_000)
    compact(log)
    assert Files().status(log.path / f"{0:020d}.log").modified_ms == 1_600_000_000_000


@pytest.mark.parametrize("policy", ["compact", "delete"])
@pytest.mark.parametrize("is_clean", [True, False])
def test_a_compacted_log_is_opened_again_whatever_its_policy_is_now(open_log: OpenLog, policy: str, is_clean: bool) -> None:
    log = open_log(**COMPACT)
    fill(log, 60, keys=3)
    compact(log)
    fill(log, 5)
    before, end = pairs(log), log.log_end_offset
    if is_clean:
        log.close()
    else:
        log.abandon()
    again = open_log(**COMPACT | {"cleanup_policy": policy}, is_clean=is_clean)
    assert pairs(again) == before
    assert again.log_end_offset == end


def test_a_compacted_segment_without_records_is_opened_without_complaint(open_log: OpenLog, caplog: pytest.LogCaptureFixture) -> None:
    log = open_log(**COMPACT)
    write(log, (b"k", b"old" * 100))
    log.roll(now_ms=NOW_MS)
    write(log, (b"k", b"new" * 100))
    log.roll(now_ms=NOW_MS)
    compact(log)
    log.close()
    again = open_log(**COMPACT)
    assert pairs(again) == [(1, b"k", b"new" * 100)]
    assert caplog.messages == []
    found = offset_of_max_timestamp(again)
    assert found is not None
    assert found.offset == 1


def test_times_are_found_in_batches_that_lost_their_first_records(open_log: OpenLog) -> None:
    log = open_log(**COMPACT)
    write(log, (b"a", b"1"), (b"b", b"1"), (b"c", b"1"))
    write(log, (b"a", b"2"), timestamp=NOW_MS + 5)
    log.roll(now_ms=NOW_MS)
    write(log, (b"b", b"2"), timestamp=NOW_MS + 9)
    log.roll(now_ms=NOW_MS)
    compact(log)
    found = offset_for_timestamp(log, NOW_MS)
    assert found is not None
    assert found.offset == 2


def cleaned_files(path: Path) -> list[Path]:
    return [*path.glob("*.cleaned"), *path.glob("*.swap")]


def test_a_start_removes_what_an_unfinished_compaction_left(open_log: OpenLog) -> None:
    log = open_log(**COMPACT)
    fill(log, 40)
    extent = extent_of(log)
    cleaning = Cleaning(log, extent, now_ms=NOW_MS, dedupe_buffer_bytes=1 << 20, io_buffer_bytes=500)
    list(Cleaner(Files(), cleaning.order).run())
    (log.path / f"{0:020d}.index.cleaned").rename(log.path / f"{0:020d}.index.swap")
    assert cleaned_files(log.path)
    before = pairs(log)
    log.close()
    again = open_log(**COMPACT)
    assert pairs(again) == before
    assert cleaned_files(log.path) == []


def test_tombstones_that_are_kept_for_ever_do_not_end_the_cleaner(open_log: OpenLog) -> None:
    log = open_log(cleanup_policy="compact", segment_bytes=200, delete_retention_ms=LONG_MAX)
    for _ in range(5):
        write(log, (b"k", b"v" * 50), (b"gone", None))
    compact(log)
    compact(log, now_ms=NOW_MS + 10**15)
    assert [(key, value) for _, key, value in pairs(log)][-1] == (b"gone", None)


def test_a_batch_with_times_beyond_64_bits_is_kept_and_does_not_end_the_cleaner(open_log: OpenLog) -> None:
    log = open_log(cleanup_policy="compact", segment_bytes=300)
    batch = bytearray(encode_batch([Record(0, NOW_MS - 1, b"k", b"old"), Record(1, NOW_MS, b"j", b"odd")]))
    batch[27:35] = LONG_MAX.to_bytes(8)  # the base timestamp, from which the times of the records count
    batch[17:21] = crc32c(batch[21:]).to_bytes(4)
    log.append_as_leader(bytes(batch), leader_epoch=0, now_ms=NOW_MS, is_own=True)
    for _ in range(5):
        write(log, (b"k", b"v" * 50))
    assert compact(log).broken_count == 1
    assert (1, b"j", b"odd") in pairs(log)


def test_consumers_pass_over_segments_of_which_nothing_is_left(open_log: OpenLog) -> None:
    log = open_log(**COMPACT)
    for number in range(40):
        write(log, (b"k", b"v%d" % number))
        log.roll(now_ms=NOW_MS)
    write(log, (b"other", b"last"))
    end = log.log_end_offset
    compact(log)
    assert sum(segment.size_bytes == HEADER_SIZE for segment in log.segments) > 2

    def headers(offset: int, *, limit: int = end, is_consumer: bool = True) -> list[tuple[int, int]]:
        region = log.read(offset, max_bytes=1 << 20, limit_offset=limit, skips_emptied=is_consumer)
        assert region is not None
        content = Files().pread(region.handle, region.length, region.position)
        return [(header.base_offset, header.record_count) for header, _ in split_batches(content)]

    first = log.segments.first
    assert first.size_bytes == HEADER_SIZE
    assert headers(0) == [(39, 1)]
    # A follower gets them all, and so does a consumer who may see no more: its position is to go on.
    [(emptied, count)] = headers(0, is_consumer=False)
    assert count == 0
    assert headers(0, limit=39) == [(emptied, 0)]
    assert headers(40) == [(40, 1)]
