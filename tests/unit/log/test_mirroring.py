import gzip
from itertools import pairwise

import pytest

from millstream.errors import CorruptMessage
from millstream.log.log import Log
from millstream.log.mirroring import MAX_ABORTED, append_mirrored, end_mirroring, highest_producer_id
from tests.batches import decode_records, encode_batch, encode_block, encode_record, split_batches
from tests.unit.log.conftest import NOW_MS, OpenLog
from tests.unit.log.partition import append, flush, read_bytes, values

TRANSACTIONAL, CONTROL, GZIP, LOG_APPEND_TIME = 16, 32, 1, 8
PRODUCER = {"producer_id": 77, "producer_epoch": 2}


def mirror(log: Log, *batches: bytes, epoch: int = 5) -> None:
    append_mirrored(log, b"".join(batches), leader_epoch=epoch, now_ms=NOW_MS)


def data(*values: bytes, at: int, **fields: int) -> bytes:
    return encode_batch(list(values), keys=None, timestamp=NOW_MS, base_offset=at, leader_epoch=91, **fields)


def marker(*, at: int, kind: int, **fields: int) -> bytes:
    record = encode_record(0, b"\x00\x00\x00\x00\x00\x03", key=b"\x00\x00\x00" + bytes([kind]))
    attributes = TRANSACTIONAL | CONTROL
    return encode_block(record, 1, timestamp=NOW_MS, max_timestamp=NOW_MS, base_offset=at, attributes=attributes, **(PRODUCER | fields))


def compressed(*values: bytes, at: int) -> bytes:
    records = gzip.compress(b"".join(encode_record(number, value) for number, value in enumerate(values)))
    return encode_block(records, len(values), timestamp=5, max_timestamp=9, base_offset=at, attributes=GZIP | LOG_APPEND_TIME)


def test_everything_from_the_length_on_is_kept_but_the_leader_epoch(log: Log) -> None:
    batches = [
        data(b"a", b"b", at=0),
        compressed(b"c", b"d", at=2),
        data(b"t", at=4, attributes=TRANSACTIONAL, base_sequence=9, **PRODUCER),
    ]
    batches.append(marker(at=5, kind=1))
    mirror(log, *batches)
    stored = [batch for _, batch in split_batches(read_bytes(log, 0))]
    assert [batch[:12] + batch[16:] for batch in stored] == [batch[:12] + batch[16:] for batch in batches]
    assert {batch[12:16] for batch in stored} == {(5).to_bytes(4, "big")}
    assert (log.log_end_offset, log.epochs.entries) == (6, [(5, 0)])


def test_options_that_change_or_refuse_batches_of_producers_do_not_touch_what_is_mirrored(open_log: OpenLog) -> None:
    log = open_log(message_timestamp_type="LogAppendTime", compression_type="gzip", max_message_bytes=10, cleanup_policy="compact")
    batch = data(b"without a key", at=0)
    mirror(log, batch)
    assert read_bytes(log, 0)[16:] == batch[16:]


def test_a_log_that_begins_elsewhere_is_looked_at_by_those_who_flush(log: Log) -> None:
    log.directory.to_flush.discard(log.topic_partition)
    mirror(log, data(b"a", at=100))
    assert (log.is_flush_due(NOW_MS), log.directory.to_flush) == (True, {log.topic_partition})


def test_gaps_are_kept_and_readers_step_over_them(log: Log) -> None:
    mirror(log, data(b"a", at=0), data(b"b", at=10))
    mirror(log, data(b"c", at=40))
    assert (values(log), log.log_end_offset) == ([b"a", b"b", b"c"], 41)
    assert [record.offset for record in decode_records(read_bytes(log, 11))] == [40]


@pytest.mark.parametrize("is_clean", [True, False])
def test_a_log_without_records_begins_where_the_first_batch_does(open_log: OpenLog, is_clean: bool) -> None:
    log = open_log()
    mirror(log, data(b"a", b"b", at=1517))
    assert (log.log_start_offset, log.log_end_offset, log.segment_base_offsets) == (1517, 1519, [1517])
    log.close() if is_clean else log.abandon()
    again = open_log(is_clean=is_clean, log_start_offset=1517 if is_clean else 0)
    assert (again.log_start_offset, again.log_end_offset, values(again)) == (1517, 1519, [b"a", b"b"])


def test_what_was_mirrored_is_recovered_after_a_crash_with_epochs_and_producers(open_log: OpenLog) -> None:
    log = open_log(internal_segment_bytes=400, segment_bytes=400)
    for number in range(20):
        mirror(log, data(b"x" * 50, at=number * 3, base_sequence=number, attributes=TRANSACTIONAL, **PRODUCER), epoch=number // 8)
    flush(log)
    before = (log.epochs.entries, log.segment_base_offsets, values(log), log.producers.render())
    log.abandon()
    again = open_log(is_clean=False, segment_bytes=400)
    assert (again.epochs.entries, again.segment_base_offsets, values(again), again.producers.render()) == before
    assert again.epochs.entries == [(0, 0), (1, 24), (2, 48)]
    assert all(two - one <= 12 for one, two in pairwise(again.segment_base_offsets))


@pytest.mark.parametrize(
    "bad",
    [
        data(b"x", at=1)[:-1] + b"!",
        data(b"x", at=0),
        data(b"x", at=5) + data(b"y", at=5),
        data(b"x", at=5, last_offset_delta=-4),
    ],
)
def test_damaged_or_older_batches_are_refused_as_a_whole(log: Log, bad: bytes) -> None:
    mirror(log, data(b"a", at=0))
    with pytest.raises(CorruptMessage, match="the mirror sent"):
        mirror(log, bad)
    assert (log.log_end_offset, values(log)) == (1, [b"a"])


def test_sequences_are_learned_and_not_checked(log: Log) -> None:
    mirror(log, data(b"a", at=0, base_sequence=100, **PRODUCER), data(b"b", at=1, base_sequence=7, **PRODUCER))
    entry = log.producers.get(77)
    assert entry is not None
    assert (entry.last_sequence, highest_producer_id(log)) == (7, 77)


def end(log: Log) -> bool:
    return end_mirroring(log, leader_epoch=6, now_ms=NOW_MS)


def test_open_transactions_get_abort_markers_that_end_them(log: Log) -> None:
    mirror(log, data(b"open", at=0, attributes=TRANSACTIONAL, base_sequence=0, **PRODUCER))
    mirror(log, data(b"ended", at=1, attributes=TRANSACTIONAL, base_sequence=0, producer_id=5, producer_epoch=0))
    mirror(log, marker(at=2, kind=1, producer_id=5, producer_epoch=0))
    assert end(log)
    (header, batch), (following, _) = split_batches(read_bytes(log, 3))
    assert (header.base_offset, header.attributes, header.producer_id, header.producer_epoch) == (3, TRANSACTIONAL | CONTROL, 77, 2)
    assert (header.leader_epoch, header.record_count, header.base_sequence) == (6, 1, -1)
    [record] = decode_records(batch)
    assert (record.key, record.value) == (b"\x00\x00\x00\x00", b"\x00\x00\x00\x00\x00\x00")
    assert (following.base_offset, following.attributes, len(log.producers)) == (4, CONTROL, 0)
    assert (end(log), log.log_end_offset) == (True, 5)


def test_many_open_transactions_are_aborted_in_several_turns(log: Log) -> None:
    count = MAX_ABORTED + 1
    mirror(log, *(data(b"x", at=at, attributes=TRANSACTIONAL, base_sequence=0, producer_id=at, producer_epoch=0) for at in range(count)))
    assert (end(log), log.log_end_offset) == (False, count + MAX_ABORTED)
    assert (end(log), log.log_end_offset) == (True, 2 * count + 1)


@pytest.mark.parametrize("is_recovered", [False, True])
def test_a_producer_with_the_id_of_a_mirrored_one_is_not_taken_for_it_after_the_end(open_log: OpenLog, is_recovered: bool) -> None:
    log = open_log()
    mirror(log, data(b"mirrored", at=0, base_sequence=0, producer_id=0, producer_epoch=3))
    end(log)
    if is_recovered:
        flush(log)
        log.abandon()
        log = open_log(is_clean=False)
    assert append(log, b"own", base_sequence=0, producer_id=0, producer_epoch=0).base_offset == 2
    assert [values(log)[index] for index in (0, 2)] == [b"mirrored", b"own"]


def test_a_promoted_log_goes_on_with_batches_of_producers(log: Log) -> None:
    mirror(log, data(b"a", at=8, base_sequence=3, **PRODUCER))
    assert append(log, b"b", epoch=6).base_offset == 9
    assert (values(log), log.epochs.entries) == ([b"a", b"b"], [(5, 8), (6, 9)])
