from dataclasses import replace

import pytest

from millstream.mirror.copying.copied_batches import CopiedBatches
from millstream.mirror.copying.partition_copy import PartitionCopy
from millstream.mirror.status.mirror_topic import entry_batches, read_statuses, stale_keys, status_entries
from millstream.mirror.status.status import Meter, PartitionStatus, ProcessStatus, one_line
from millstream.topic_partition import TopicPartition
from millstream.wire.records import decode_records


def copying(index: int = 0, *, offsets: int = 10, source_end: int = 30, timestamp: int = 4_000) -> PartitionCopy:
    copy = PartitionCopy(TopicPartition("orders", index))
    copy.begin(target_end=0, source_start=0, source_end=source_end, last_epoch=-1)
    if offsets:
        copy.fetched([CopiedBatches(memoryview(bytes(500)), ((0, offsets),), (), 0, timestamp)], high_watermark=source_end, log_start=0)
        copy.confirmed(copy.take())
    return copy


def process(member: str, *, at_ms: int, name: str = "mirror", **refused: str) -> ProcessStatus:
    return ProcessStatus(name, member, "a:1", "b:1", ".*", "host:1", at_ms, "running", refused, None)


def measured(*copies: PartitionCopy) -> list[PartitionStatus]:
    return Meter().measure(copies, now_ms=10_000)


def test_lag_is_told_in_messages_bytes_and_seconds() -> None:
    [behind] = measured(copying())
    assert (behind.lag_messages, behind.lag_bytes, behind.lag_seconds) == (20, 1000, 6.0)
    [there] = measured(copying(source_end=10))
    assert (there.lag_messages, there.lag_bytes, there.lag_seconds) == (0, 0, 0.0)
    [nothing_copied] = measured(copying(offsets=0))
    assert (nothing_copied.lag_messages, nothing_copied.lag_bytes, nothing_copied.lag_seconds) == (30, None, None)
    [unknown] = measured(PartitionCopy(TopicPartition("orders", 0)))
    assert (unknown.lag_messages, unknown.lag_seconds, unknown.state) == (None, None, "starting")


def test_speed_is_what_was_copied_since_the_last_time() -> None:
    copy, meter = copying(), Meter()
    [first] = meter.measure([copy], now_ms=10_000)
    copy.copied_offsets, copy.copied_bytes = 110, 2500
    [second] = meter.measure([copy], now_ms=12_000)
    assert (first.messages_per_second, second.messages_per_second, second.bytes_per_second) == (0, 50, 1000)


def test_what_processes_wrote_is_put_together_and_the_newest_report_counts() -> None:
    old = status_entries(process("one", at_ms=100), measured(copying(0), copying(1)))
    new = status_entries(process("two", at_ms=200, clicks="is no mirror"), measured(copying(1, source_end=10)))
    other = status_entries(process("three", at_ms=50, name="east"), [])
    noise = {"pause/mirror/orders": b"{}", "status/mirror/four": b"no JSON", "status/mirror/five": b"[]", "status/mirror/six": b'{"a": 1}'}
    east, both = read_statuses(old | new | other | noise, not_before_ms=100)
    assert (east.name, east.partitions, [one.member for one in both.processes]) == ("east", [], ["one", "two"])
    assert [(one.partition, one.lag_messages) for one in both.partitions] == [(0, 20), (1, 0)]
    document = both.document()
    assert (document["lag_messages"], document["lag_seconds"], document["errors"]) == (20, 6.0, ["clicks: is no mirror"])


@pytest.mark.parametrize("value", [b'{"at_ms": "x"}', b'{"at_ms": null, "partitions": []}', b'{"at_ms": 1, "refused": 2}', b"[" * 100_000])
def test_a_record_that_is_not_what_it_should_be_is_skipped(value: bytes) -> None:
    own = status_entries(process("one", at_ms=100), [])
    other = status_entries(process("two", at_ms=100), [])
    entries = own | dict.fromkeys(other, value) | {"status/mirror/one/orders": value}
    assert [[one.member for one in found.processes] for found in read_statuses(entries, not_before_ms=0)] == [["one"]]
    assert stale_keys(entries, "mirror", before_ms=0) == []


def test_what_is_said_of_thousands_of_partitions_fits_into_batches_that_brokers_take() -> None:
    [one] = measured(copying())
    many = [replace(one, topic=f"topic-{number % 1000}", partition=number) for number in range(5_000)]
    wide = [replace(one, topic="wide", partition=number, error="the broker does not answer" * 5) for number in range(5_000)]
    entries = status_entries(process("one", at_ms=100), many + wide)
    batches = list(entry_batches(entries, now_ms=100))
    assert max(map(len, batches)) < 1 << 20
    assert {record.key.decode(): record.value for batch in batches for record in decode_records(batch) if record.key} == entries
    assert list(entry_batches({}, now_ms=100)) == []


def test_a_process_that_fell_silent_is_shown_only_if_all_others_are_silent_too() -> None:
    old = status_entries(process("one", at_ms=100), measured(copying(0)))
    last = status_entries(process("two", at_ms=90_000), measured(copying(1))) | status_entries(
        process("three", at_ms=80_000), measured(copying(2))
    )
    [status] = read_statuses(old | last, not_before_ms=200_000)
    assert [(one.member, one.state) for one in status.processes] == [("two", "silent"), ("three", "silent")]
    assert [(one.partition, one.messages_per_second) for one in status.partitions] == [(1, 0.0), (2, 0.0)]
    [status] = read_statuses(old | last, not_before_ms=85_000)
    assert [(one.member, one.state) for one in status.processes] == [("two", "running"), ("three", "silent")]


def test_one_line_says_how_it_goes() -> None:
    stopped = copying(1)
    stopped.stop("other data")
    line = one_line(measured(copying(), stopped), {"clicks": "is no mirror"})
    assert line == (
        "1 topic(s), 2 partition(s): 0 messages/s, 0.00 MB/s, 40 messages behind (6.0 s); 1 partition(s) and 1 topic(s) with errors"
    )


def test_what_processes_left_that_are_long_gone_may_be_deleted() -> None:
    gone = status_entries(process("one", at_ms=100), measured(copying()))
    entries = (
        gone | status_entries(process("two", at_ms=900), measured(copying())) | status_entries(process("three", at_ms=1, name="east"), [])
    )
    assert sorted(stale_keys(entries | {"pause/mirror/orders": b"{}"}, "mirror", before_ms=500)) == sorted(gone)
