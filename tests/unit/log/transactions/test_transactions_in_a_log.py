"""Transactions of a log from its first batch on: what readers of committed data see, and that files, restarts and cuts keep it so."""

import random

import pytest

from millstream.errors import InvalidProducerEpoch
from millstream.log.log import Log
from millstream.log.retention import apply_retention
from millstream.log.transactions.committed_reads import aborted_in, aborted_in_region
from millstream.transaction_errors import InvalidTxnState, TransactionCoordinatorFenced
from tests.batches import split_batches
from tests.unit.log.conftest import NOW_MS, OpenLog
from tests.unit.log.partition import append, flush, read_bytes
from tests.unit.log.transacted import Writer, aborted_files


def stable(log: Log) -> int:
    return log.last_stable_offset(log.log_end_offset)


def test_readers_of_committed_data_stop_at_the_oldest_open_transaction(log: Log) -> None:
    one, two = Writer(log, 1), Writer(log, 2)
    append(log, b"plain")
    assert stable(log) == 1
    one.send(b"a")
    two.send(b"b")
    append(log, b"plain")
    assert stable(log) == 1
    one.commit()
    assert stable(log) == 2
    two.abort()
    assert stable(log) == log.log_end_offset == 6
    assert aborted_in(log, 0, 6) == [(2, 2, 5, 6)]


def test_a_marker_above_the_high_watermark_decides_nothing_yet(log: Log) -> None:
    one = Writer(log, 1)
    one.send(b"a")
    one.commit()
    assert [log.last_stable_offset(high_watermark) for high_watermark in (0, 1, 2)] == [0, 0, 2]


def test_the_start_of_the_log_moves_past_an_open_transaction(log: Log) -> None:
    one = Writer(log, 1)
    one.send(b"a", b"b", b"c")
    append(log, b"plain")
    log.delete_records_before(2)
    assert stable(log) == 2
    one.abort()
    assert stable(log) == 5
    assert aborted_in(log, 2, 5) == [(1, 0, 4, 5)]


def test_an_empty_transaction_leaves_no_trace_but_the_epoch(log: Log) -> None:
    one = Writer(log, 1, epoch=3)
    one.abort()
    assert (stable(log), aborted_in(log, 0, 1), aborted_files(log)) == (1, [], {})
    with pytest.raises(InvalidProducerEpoch):
        Writer(log, 1, epoch=2).send(b"zombie")


def test_plain_batches_of_a_producer_in_a_transaction_are_refused(log: Log) -> None:
    one = Writer(log, 1)
    one.send(b"a")
    with pytest.raises(InvalidTxnState):
        one.send(b"b", flags=0)
    assert log.log_end_offset == 1


def test_markers_of_former_coordinators_and_producers_are_refused(log: Log) -> None:
    one = Writer(log, 1, epoch=5)
    one.send(b"a")
    one.end(is_commit=True, coordinator_epoch=7)
    with pytest.raises(TransactionCoordinatorFenced):
        one.end(is_commit=True, coordinator_epoch=6)
    with pytest.raises(InvalidProducerEpoch):
        Writer(log, 1, epoch=4).commit()
    assert log.log_end_offset == 2


def test_with_transaction_version_2_a_marker_has_to_bring_a_later_epoch(log: Log) -> None:
    """A delayed marker of the last transaction must not end the next one, which has the epoch that the marker brought (KIP-890)."""
    one = Writer(log, 1)
    one.send(b"a")
    one.end(is_commit=True, transaction_version=2)
    Writer(log, 1, epoch=0).end(is_commit=True, transaction_version=2)  # once more, before anything else: no harm
    one.send(b"b")
    with pytest.raises(InvalidProducerEpoch):
        Writer(log, 1, epoch=0).end(is_commit=False, transaction_version=2)
    assert stable(log) == 3


def test_offsets_that_a_coordinator_writes_for_a_producer_have_no_sequence(log: Log) -> None:
    for number in range(3):
        one = Writer(log, 1, epoch=number // 2)
        one.sequence = -1
        one.send(b"offset")
    entry = log.producers.get(1)
    assert entry is not None
    assert (entry.epoch, entry.last_sequence, entry.last_offset, stable(log)) == (1, -1, 2, 0)


@pytest.mark.parametrize("is_clean", [True, False])
def test_open_and_aborted_transactions_are_known_after_a_restart(open_log: OpenLog, is_clean: bool) -> None:
    log = open_log(segment_bytes=500)
    expected = play(log, seed=3)
    before = stable(log)
    log.close() if is_clean else log.abandon()
    again = open_log(segment_bytes=500, is_clean=is_clean)
    assert (stable(again), aborted_in(again, 0, again.log_end_offset)) == (before, expected)


def test_recovery_makes_the_same_files(open_log: OpenLog) -> None:
    log = open_log(segment_bytes=500)
    play(log, seed=4)
    log.close()
    files = aborted_files(log)
    assert len(files) > 3
    again = open_log(segment_bytes=500, is_clean=False)
    again.close()
    assert aborted_files(again) == files


@pytest.mark.parametrize("damage", ["missing index", "torn", "nonsense"])
def test_a_damaged_index_of_a_sealed_segment_is_made_anew(open_log: OpenLog, damage: str) -> None:
    log = open_log(segment_bytes=500)
    expected = play(log, seed=5)
    log.close()
    files = aborted_files(log)
    path = log.path / sorted(files)[1]
    if damage == "missing index":
        path.with_suffix(".index").unlink()
        path.unlink()
    else:
        path.write_bytes(files[path.name][:-1] if damage == "torn" else bytes(34))
    again = open_log(segment_bytes=500)
    assert aborted_in(again, 0, again.log_end_offset) == expected
    assert aborted_files(again) == files


def test_a_cut_takes_back_what_markers_behind_it_said(open_log: OpenLog) -> None:
    log = open_log(segment_bytes=500)
    one, two = Writer(log, 1), Writer(log, 2)
    one.send(b"a")
    two.send(b"b")
    two.abort()
    marker = one.abort()
    assert stable(log) == marker + 1
    log.truncate_to(marker)
    assert (stable(log), aborted_in(log, 0, marker)) == (0, [(2, 1, 2, 0)])
    log.truncate_to(2)
    assert (stable(log), aborted_in(log, 0, 2)) == (0, [])
    log.truncate_fully_and_start_at(50)
    assert stable(log) == 50


def test_followers_know_the_same(open_log: OpenLog) -> None:
    log = open_log(segment_bytes=500)
    expected = play(log, seed=6)
    copied = b"".join(read_bytes(log, segment.base_offset) for segment in log.segments)
    before = stable(log)
    log.truncate_fully_and_start_at(0)
    assert aborted_in(log, 0, 1000) == []
    log.append_as_follower(copied, now_ms=NOW_MS)
    assert (stable(log), aborted_in(log, 0, log.log_end_offset)) == (before, expected)


def test_old_segments_go_with_their_index(open_log: OpenLog) -> None:
    log = open_log(segment_bytes=500, retention_bytes=1500)
    play(log, seed=7)
    flush(log)
    for path in apply_retention(log, NOW_MS, high_watermark=log.log_end_offset):
        path.unlink()
    assert set(aborted_files(log)) <= {segment.path(".txnindex").name for segment in log.segments}
    assert log.log_start_offset > 0
    assert all(last >= log.log_start_offset for _, _, last, _ in aborted_in(log, log.log_start_offset, log.log_end_offset))


def test_a_region_comes_with_what_was_aborted_in_it(open_log: OpenLog) -> None:
    log = open_log(segment_bytes=2000, index_interval_bytes=100)
    aborted = play(log, seed=8)
    lengths = set()
    for offset in range(stable(log)):
        region = log.read(offset, max_bytes=400, limit_offset=stable(log))
        assert region is not None
        listed = aborted_in_region(log, offset, region)
        batches = [header for header, _ in split_batches(log.directory.files.pread(region.handle, region.length, region.position))]
        needed = {
            one for one in aborted for header in batches if header.producer_id == one[0] and one[1] <= header.base_offset < one[2]
        }  # fmt: skip
        assert {one for one in needed if one[2] >= offset} <= set(listed)
        assert [one.last_offset for one in listed] == sorted(one.last_offset for one in listed)
        lengths.add(len(listed))
    assert max(lengths) < len(aborted) / 3
    log.close()


def test_where_nothing_was_aborted_no_index_is_opened(open_log: OpenLog) -> None:
    log = open_log(segment_bytes=500)
    for _ in range(30):
        append(log, b"plain")
    region = log.read(0, max_bytes=1000, limit_offset=30)
    assert region is not None
    assert aborted_in_region(log, 0, region) == []
    assert all(segment._aborted_index is None for segment in log.segments)


def play(log: Log, *, seed: int, steps: int = 120) -> list[tuple[int, int, int, int]]:
    """Random transactions of a few producers, the last of which stays open; what the index has to say of them, computed from scratch."""
    rng = random.Random(seed)
    writers = [Writer(log, producer_id) for producer_id in range(4)]
    opened: dict[int, int] = {}
    aborted = []
    for step in range(steps):
        writer = rng.choice(writers)
        if step == steps - 1 or rng.random() < 0.6 or writer.producer_id not in opened:
            offset = writer.send(*[b"x" * 10] * rng.randint(1, 3))
            opened.setdefault(writer.producer_id, offset)
            continue
        is_commit = rng.random() < 0.4
        marker = writer.end(is_commit=is_commit)
        first = opened.pop(writer.producer_id)
        if not is_commit:
            aborted.append((writer.producer_id, first, marker, min(opened.values(), default=marker + 1)))
    return aborted
