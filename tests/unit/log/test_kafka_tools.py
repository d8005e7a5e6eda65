"""Kafka's own dump tool reads every file of a log without complaint."""

import re
from pathlib import Path

import pytest

from millstream.log.log import Log
from millstream.log.transactions.committed_reads import aborted_in
from millstream.wire.compression import Codec
from millstream.wire.records import Record, encode_batch
from tests.batches import encode_batch as encode_by_hand
from tests.java import run_tool
from tests.unit.log.compacted import compact, records_of
from tests.unit.log.conftest import NOW_MS, OpenLog
from tests.unit.log.partition import append
from tests.unit.log.transacted import Writer

DUMP = "kafka.tools.DumpLogSegments"

pytestmark = pytest.mark.slow


@pytest.fixture
def closed(open_log: OpenLog) -> Log:
    log = open_log(segment_bytes=30_000, index_interval_bytes=500)
    for number in range(200):
        codec = Codec(number % 5)
        records = [Record(0, NOW_MS + number, b"key", b"v" * 60), Record(1, NOW_MS + number, None, b"w" * 60)]
        log.append_as_leader(encode_batch(records, codec=codec), leader_epoch=number // 80, now_ms=NOW_MS)
        append(log, b"idempotent", producer_id=7, producer_epoch=1, base_sequence=number)
    log.close()
    return log


def dump(paths: list[Path], *options: str) -> str:
    assert paths
    output = run_tool(DUMP, "--files", ",".join(map(str, paths)), *options)
    assert not re.search("exception|mismatch|corrupt|invalid|not valid|Could not|isvalid: false", output, re.IGNORECASE), output
    return output


def test_segments_are_valid_record_by_record(closed: Log) -> None:
    output = dump(sorted(closed.path.glob("*.log")), "--deep-iteration", "--print-data-log")
    assert len(re.findall(r"^\| offset: ", output, re.MULTILINE)) == closed.log_end_offset == 600


def test_indexes_agree_with_their_segments(closed: Log) -> None:
    indexes = sorted(closed.path.glob("*.index"))
    assert len(indexes) > 1
    output = dump(indexes, "--index-sanity-check")
    assert output.count("passed sanity check") == len(indexes)
    dump(indexes, "--verify-index-only")
    dump(sorted(closed.path.glob("*.timeindex")))


def test_producer_snapshot_holds_the_last_batch(closed: Log) -> None:
    output = dump([closed.path / f"{600:020d}.snapshot"])
    assert "producerId: 7 producerEpoch: 1" in output
    assert "lastSequence: 199 lastOffset: 599" in output


def test_aborted_transactions_and_markers_are_read(open_log: OpenLog) -> None:
    log = open_log(segment_bytes=2000)
    writers = [Writer(log, producer_id) for producer_id in (3, 4)]
    for number in range(40):
        writers[number % 2].send(b"x" * 100)
        if number % 3 == 0:
            writers[number % 2].end(is_commit=number % 2 == 0, coordinator_epoch=5)
    log.close()
    output = dump(sorted(log.path.glob("*.txnindex")))
    expected = aborted_in(log, 0, log.log_end_offset)
    assert len(expected) > 3
    for producer_id, first, last, stable in expected:
        assert f"version: 0 producerId: {producer_id} firstOffset: {first} lastOffset: {last} lastStableOffset: {stable}" in output
    output = dump(sorted(log.path.glob("*.log")), "--deep-iteration")
    assert len(re.findall("endTxnMarker: (?:COMMIT|ABORT) coordinatorEpoch: 5", output)) == 14
    output = dump([log.path / f"{log.log_end_offset:020d}.snapshot"])
    assert "currentTxnFirstOffset: OptionalLong[" in output


@pytest.fixture
def compacted(open_log: OpenLog) -> Log:
    log = open_log(segment_bytes=20_000, index_interval_bytes=500, cleanup_policy="compact", delete_retention_ms=1000)
    for number in range(200):
        keys = [b"key%d" % (number % 13), b"other%d" % (number % 5), b"deleted%d" % (number % 40)]
        records = [Record(at, NOW_MS + number, key, None if at == 2 else b"v" * 60) for at, key in enumerate(keys)]
        log.append_as_leader(encode_batch(records, codec=Codec(number % 5)), leader_epoch=0, now_ms=NOW_MS)
        producer = {"producer_id": number % 3, "producer_epoch": 1, "base_sequence": number // 3}
        batch = encode_by_hand([b"idempotent"], keys=[b"same"], timestamp=NOW_MS + number, **producer)
        log.append_as_leader(batch, leader_epoch=0, now_ms=NOW_MS)
    log.roll(now_ms=NOW_MS)
    compact(log)
    compact(log, now_ms=NOW_MS + 500)
    log.close()
    return log


def test_compacted_segments_are_valid_record_by_record(compacted: Log, open_log: OpenLog) -> None:
    output = dump(sorted(compacted.path.glob("*.log")), "--deep-iteration", "--print-data-log")
    offsets = [int(offset) for offset in re.findall(r"^\| offset: (\d+)", output, re.MULTILINE)]
    assert offsets == [record.offset for record in records_of(open_log())]
    assert len(offsets) == 13 + 5 + 40 + 1
    assert f"deleteHorizonMs: OptionalLong[{NOW_MS + 1000}]" in output
    assert re.search(r"count: 0 .*producerId: \d", output)


def test_indexes_of_compacted_segments_agree(compacted: Log) -> None:
    indexes = sorted(compacted.path.glob("*.index"))
    dump(indexes, "--index-sanity-check")
    dump(indexes, "--verify-index-only")
    dump(sorted(compacted.path.glob("*.timeindex")))
