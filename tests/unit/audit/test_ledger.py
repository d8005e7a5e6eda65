from dataclasses import replace

from millstream.audit.ledger import Ledger
from millstream.audit.ledger_fields import decode_bucket, decode_head, encode_bucket, encode_head
from millstream.audit.offset_set import OffsetSet
from millstream.audit.reports.report import Count, Kind, ReadRange
from millstream.audit.topic_head import MAX_TIERS, Tier
from tests.unit.audit.some_reports import DELAY, origin, report

LOG = origin("broker", Kind.BROKER)


def ledger_of(*reports: object, bucket_ms: int = 600_000) -> Ledger:
    ledger = Ledger("orders", bucket_ms=bucket_ms)
    for offset, one in enumerate(reports):
        ledger.apply(one, offset=offset, arrived_ms=1_000)  # type: ignore[arg-type]
    return ledger


def counts_of(ledger: Ledger, by: str = "web") -> dict[int, int]:
    return {start: count.count for start, bucket in ledger.buckets.items() for tier, count in bucket.tiers.items() if tier.name == by}


def test_a_report_that_comes_again_is_counted_once() -> None:
    first = report(Count(0, 5))
    assert counts_of(ledger_of(first, first, replace(first, sequence=1))) == {0: 10}


def test_two_processes_with_one_id_are_noticed() -> None:
    ledger = ledger_of(report(Count(0, 5)), report(Count(0, 7)))
    assert counts_of(ledger) == {0: 5}
    assert [one.conflicts for one in ledger.head.reporters.values()] == [1]


def test_two_hosts_with_one_id_are_two_reporters() -> None:
    assert counts_of(ledger_of(report(Count(0, 5)), report(Count(0, 7), by=origin()._replace(host="h2")))) == {0: 12}


def test_two_tiers_with_one_name_and_different_work_are_two_tiers() -> None:
    ledger = ledger_of(report(Count(0, 5)), report(Count(0, 7), by=origin("web", Kind.CONSUMER)))
    assert {tier.kind: count.count for tier, count in ledger.buckets[0].tiers.items()} == {Kind.PRODUCER: 5, Kind.CONSUMER: 7}


def test_buckets_that_divide_those_of_the_topic_are_added_up() -> None:
    parts = [replace(report(Count(start, 5), sequence=number), bucket_ms=60_000) for number, start in enumerate((0, 60_000, 600_000))]
    assert counts_of(ledger_of(*parts)) == {0: 10, 600_000: 5}


def test_buckets_that_cannot_be_compared_are_refused_and_counted() -> None:
    ledger = ledger_of(replace(report(Count(0, 5)), bucket_ms=3_600_000), replace(report(Count(0, 5)), bucket_ms=7_000))
    assert (counts_of(ledger), ledger.head.refused) == ({}, 2)


def test_of_two_readers_of_a_log_one_counts() -> None:
    def read(start: int, end: int, sequence: int) -> object:
        counted = Count(0, end - start, 0, 0, control=1, offsets=OffsetSet.of((start, end)))
        return report(counted, sequence=sequence, by=LOG, read=(ReadRange(0, start, end),))

    ledger = ledger_of(read(5, 10, 0), read(5, 12, 1), read(10, 15, 2), read(16, 20, 3))
    assert counts_of(ledger, "broker") == {0: 10}
    head = ledger.head.tiers[Tier.of(LOG)]
    assert (head.refused, head.position(0)) == (2, 15)
    assert ledger.buckets[0].tiers[Tier.of(LOG)].control == 2


def test_a_report_that_the_state_has_is_skipped_when_it_is_read_again() -> None:
    ledger = ledger_of(report(Count(0, 5)))
    restored = Ledger("orders")
    restored.head = decode_head(encode_head(ledger.head))
    restored.add_part(decode_bucket(encode_bucket(ledger.buckets[0])))
    restored.apply(report(Count(0, 5)), offset=0, arrived_ms=1_000)
    assert counts_of(restored) == {0: 5}


def test_a_bucket_that_was_written_before_its_head_counts_once() -> None:
    before = ledger_of(report(Count(0, 5)))
    head = encode_head(before.head)
    after = ledger_of(report(Count(0, 5)), report(Count(0, 7), Count(600_000, 1), sequence=1))
    restored = Ledger("orders")
    restored.head = decode_head(head)
    restored.add_part(decode_bucket(encode_bucket(after.buckets[0])))
    restored.apply(report(Count(0, 7), Count(600_000, 1), sequence=1), offset=1, arrived_ms=1_000)
    assert counts_of(restored) == {0: 12, 600_000: 1}


def test_parts_of_a_bucket_that_had_left_memory_are_one_bucket() -> None:
    counted = Count(0, 10, 100, 0, malformed=2, delay=DELAY, offsets=OffsetSet.of((0, 10)))
    ledger = ledger_of(report(counted))
    part = decode_bucket(encode_bucket(ledger.buckets[0]))
    ledger.forget(0)
    ledger.apply(report(Count(0, 10, 100, 0, offsets=OffsetSet.of((5, 15))), sequence=1), offset=1, arrived_ms=1_000)
    assert ledger.buckets[0].part == 1
    ledger.add_part(part)
    (found,) = ledger.buckets[0].tiers.values()
    assert (found.count, found.repeated, found.bytes, found.delay) == (15, 5, 150, DELAY)


def test_tiers_without_end_are_refused_and_those_before_are_counted_on() -> None:
    ledger = Ledger("orders")
    for number in range(MAX_TIERS + 10):
        ledger.apply(report(by=origin(f"worker-{number}")), offset=number, arrived_ms=0)
    assert (len(ledger.head.tiers), len(ledger.head.reporters), ledger.head.refused) == (MAX_TIERS, MAX_TIERS, 10)
    ledger.apply(report(Count(0, 5), by=origin("worker-7"), sequence=1), offset=MAX_TIERS + 10, arrived_ms=0)
    ledger.apply(report(Count(0, 5), by=LOG), offset=MAX_TIERS + 11, arrived_ms=0)
    assert [count.count for count in ledger.buckets[0].tiers.values()] == [5, 5]
