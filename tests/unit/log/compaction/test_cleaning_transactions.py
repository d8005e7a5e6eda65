"""Compaction of a log with transactions: aborted records go, markers stay as long as Kafka keeps them, and nothing that is read changes."""

import random

import pytest

from millstream.log.compaction.swap import commit_swap
from millstream.log.log import Log
from millstream.log.transactions.committed_reads import aborted_in
from millstream.log.transactions.marker import read_marker
from millstream.wire.batch import read_header
from tests.batches import decode_records
from tests.unit.log.compacted import compact, extent_of, stored_batches, write
from tests.unit.log.conftest import NOW_MS, OpenLog
from tests.unit.log.transacted import Writer, aborted_files

RETENTION_MS = 1000


@pytest.fixture
def compacted_log(open_log: OpenLog) -> Log:
    return open_log(cleanup_policy="compact", delete_retention_ms=RETENTION_MS, segment_bytes=4000)


def committed(log: Log) -> dict[bytes, bytes]:
    """The latest committed value of each key, as a reader of committed data finds them."""
    aborted = aborted_in(log, log.log_start_offset, log.log_end_offset)
    found: dict[bytes, bytes] = {}
    for batch in stored_batches(log):
        header = read_header(batch)
        is_aborted = any(
            one.producer_id == header.producer_id and one.first_offset <= header.base_offset < one.last_offset for one in aborted
        )
        if not header.is_control and not (header.is_transactional and is_aborted):
            found |= {record.key or b"": record.value or b"" for record in decode_records(batch)}
    return found


def markers(log: Log) -> list[int]:
    """Offsets of the markers that are not empty."""
    return [
        read_header(batch).base_offset for batch in stored_batches(log) if read_header(batch).is_control and read_marker(batch) is not None
    ]


def seal(log: Log) -> None:
    """Put an end to the active segment, so that all before it can be compacted."""
    write(log, (b"end", b"%d" % log.log_end_offset))
    log.roll(now_ms=NOW_MS)
    write(log, (b"active", b"active"))


def test_aborted_records_go_and_do_not_supersede_others(compacted_log: Log) -> None:
    log, one = compacted_log, Writer(compacted_log, 1)
    write(log, (b"k", b"good"))
    one.send(b"bad", key=b"k")
    one.send(b"bad", key=b"other")
    one.abort()
    one.send(b"later", key=b"x")
    one.commit()
    seal(log)
    before = committed(log)
    compact(log)
    assert committed(log) == before == {b"k": b"good", b"x": b"later", b"end": b"6", b"active": b"active"}
    assert not any(record.value == b"bad" for batch in stored_batches(log) for record in decode_records(batch))
    assert aborted_in(log, 0, 10) == [(1, 1, 3, 4)]


def test_a_marker_goes_a_while_after_its_transaction(compacted_log: Log) -> None:
    log, one = compacted_log, Writer(compacted_log, 1)
    one.send(b"bad", key=b"k")
    aborted = one.abort()
    one.send(b"good", key=b"k")
    one.commit()
    one.send(b"better", key=b"k")  # the last batch of the producer stays, and its marker with it
    kept = one.commit()
    seal(log)
    compact(log)
    assert markers(log) == [aborted, 3, kept]
    assert len(aborted_in(log, 0, 10)) == 1
    seal(log)
    compact(log)  # now nothing is left of the first two transactions: their markers get a horizon
    assert markers(log) == [aborted, 3, kept]
    assert aborted_in(log, 0, 10) == []
    seal(log)
    compact(log, now_ms=NOW_MS + RETENTION_MS - 1)
    assert markers(log) == [aborted, 3, kept]
    seal(log)
    compact(log, now_ms=NOW_MS + RETENTION_MS)
    assert markers(log) == [kept]
    assert committed(log)[b"k"] == b"better"


def test_the_last_word_on_a_producers_epoch_stays(compacted_log: Log) -> None:
    """Where the log has only markers of a producer, they are what fences its former epochs."""
    log, one = compacted_log, Writer(compacted_log, 1, epoch=4)
    one.abort()
    for round_number in range(3):
        seal(log)
        compact(log, now_ms=NOW_MS + round_number * RETENTION_MS)
    offsets = [read_header(batch).base_offset for batch in stored_batches(log) if read_header(batch).is_control]
    assert offsets == [0]


def test_a_transaction_whose_marker_lies_behind_what_is_compacted(compacted_log: Log) -> None:
    log, one = compacted_log, Writer(compacted_log, 1)
    write(log, (b"k", b"good"))
    one.send(b"bad", key=b"k")
    log.roll(now_ms=NOW_MS)
    write(log, (b"x", b"x"))
    assert extent_of(log).segment_count == 0  # it is undecided
    one.abort()
    compact(log)
    assert committed(log) == {b"k": b"good", b"x": b"x"}
    assert sum(header.record_count for header in map(read_header, stored_batches(log))) == 3
    assert aborted_in(log, 0, 10) == [(1, 1, 3, 4)]


@pytest.mark.parametrize("seed", range(5))
def test_readers_of_committed_data_find_the_same_before_and_after(open_log: OpenLog, seed: int) -> None:
    options = {"cleanup_policy": "compact", "delete_retention_ms": RETENTION_MS, "segment_bytes": 1500}
    log, rng = open_log(**options), random.Random(seed)
    writers = [Writer(log, producer_id) for producer_id in range(3)]
    for round_number in range(4):
        for _ in range(60):
            writer = rng.choice(writers)
            if rng.random() < 0.6:
                writer.send(b"%d" % rng.randrange(10**6), key=b"k%d" % rng.randrange(8))
            else:
                writer.end(is_commit=rng.random() < 0.5)
        for writer in writers:
            writer.end(is_commit=rng.random() < 0.5)
        seal(log)
        before = committed(log)
        compact(log, now_ms=NOW_MS + round_number * RETENTION_MS, memory=rng.choice([160 * 6, 1 << 20]))
        assert committed(log) == before
        assert log.last_stable_offset(log.log_end_offset) == log.log_end_offset
        log.close()
        log = open_log(**options, is_clean=False)  # which makes the indexes of what is left anew
        assert committed(log) == before
        assert log.last_stable_offset(log.log_end_offset) == log.log_end_offset
        for writer in writers:
            writer.log = log


def test_an_index_without_entries_replaces_the_old_one_at_an_interrupted_swap(open_log: OpenLog) -> None:
    options = {"cleanup_policy": "compact", "delete_retention_ms": RETENTION_MS, "segment_bytes": 4000}
    log = open_log(**options)
    one = Writer(log, 1)
    one.send(b"bad", key=b"k")
    one.abort()
    one.send(b"good", key=b"k")
    one.commit()
    seal(log)
    compact(log)
    seal(log)
    log.close()
    assert len(aborted_files(log)[f"{0:020d}.txnindex"]) == 34
    base = log.path / f"{0:020d}"
    for suffix in (".index", ".timeindex", ".txnindex", ".log"):  # a compaction that left everything but the entry
        content = b"" if suffix == ".txnindex" else base.with_suffix(suffix).read_bytes()
        base.with_suffix(suffix + ".cleaned").write_bytes(content)
    commit_swap(log.directory.files, log.path, 0)
    again = open_log(**options)
    assert aborted_files(again)[f"{0:020d}.txnindex"] == b""
