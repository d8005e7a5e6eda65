"""Any interleaving, repetition, loss and restart of reports gives the verdict that counting on fingers gives."""

from collections.abc import Callable, Iterable
from dataclasses import replace
from random import Random

from hypothesis import given, settings
from hypothesis import strategies as st

from millstream.audit.judgement import TopicJudge
from millstream.audit.ledger import Ledger
from millstream.audit.ledger_fields import decode_bucket, decode_head, encode_bucket, encode_head
from millstream.audit.reports.report import Kind, Report
from millstream.audit.verdict import Row, Verdict, judge
from tests.properties.audit_world import BUCKETS, CONSUMER, LIVE, MIRROR, NOW_MS, OFFLINE, PARTITIONS, PRODUCER, Message, World

LATER_MS = NOW_MS + 3_600_000
SEEDS = st.integers(0, 2**32)
Rows = dict[tuple[int, str, str], Row]


def rows_of(reports: Iterable[Report]) -> Rows:
    ledger = Ledger("t")
    for offset, report in enumerate(reports):
        ledger.apply(report, offset=offset, arrived_ms=NOW_MS)
    return by_place(ledger)


def by_place(ledger: Ledger) -> Rows:
    return {(row.bucket, row.tier.kind, row.tier.cluster): row for row in judge(ledger, now_ms=LATER_MS)}


def found(rows: Rows, bucket: int, kind: Kind, cluster: str = "live") -> tuple[int, int, int, str | None]:
    row = rows.get((bucket, kind, cluster))
    return (row.count, row.missing, row.surplus, row.verdict) if row else (0, 0, 0, None)


def expected(count: int, missing: int, surplus: int) -> tuple[int, int, int, str | None]:
    if not count and not missing:
        return (0, 0, 0, None)
    return (count, missing, surplus, Verdict.MISSING if missing else Verdict.SURPLUS if surplus else Verdict.COMPLETE)


def named(row: Row | None, side: Callable[[Row], Iterable[object]]) -> set[tuple[int, int]]:
    """Partition and offset of everything that a row names."""
    places = side(row) if row else ()
    return {
        (place.partition, offset)  # type: ignore[attr-defined]
        for place in places
        for start, end in place.ranges  # type: ignore[attr-defined]
        for offset in range(start, end)
    }


def places(messages: Iterable[Message]) -> set[tuple[int, int]]:
    return {(partition, offset) for partition, offset, _ in messages}


def owed_by_consumer(world: World, bucket: int) -> set[Message]:
    first_bucket = min((at for _, _, at in world.handled), default=bucket)
    first = {partition: min((offset for at, offset, _ in world.handled if at == partition), default=None) for partition in PARTITIONS}
    return {
        (partition, offset, at)
        for partition, offset, at in world.log
        if at == bucket and (((start := first[partition]) is not None and offset >= start) or (start is None and bucket > first_bucket))
    }


@settings(max_examples=100, deadline=None)
@given(SEEDS)
def test_every_tier_has_the_verdict_that_a_model_has(seed: int) -> None:
    world = World(Random(seed)).build()
    rows = rows_of(world.reports())
    for bucket in BUCKETS:
        check_producers(world, rows, bucket)
        check_mirror(world, rows, bucket)
        check_consumer(world, rows, bucket)


def check_producers(world: World, rows: Rows, bucket: int) -> None:
    written = {message for message in world.log if message[2] == bucket}
    sent = written - world.unreported
    is_reference = world.unreported == set(world.log)
    assert found(rows, bucket, Kind.PRODUCER) == expected(len(sent), 0, 0)
    assert found(rows, bucket, Kind.BROKER) == expected(len(written), 0, 0 if is_reference else len(written - sent))
    row = rows.get((bucket, Kind.BROKER, "live"))
    if world.sends_offsets and not is_reference:
        assert named(row, lambda row: row.surpluses) == places(written - sent)


def check_mirror(world: World, rows: Rows, bucket: int) -> None:
    written = {message for message in world.log if message[2] == bucket}
    copied = written & world.copied
    arrived = written & world.arrived
    if (0, Kind.MIRROR, "live") not in {(0, kind, cluster) for _, kind, cluster in rows}:
        return
    assert found(rows, bucket, Kind.MIRROR) == expected(len(copied), len(written - copied), 0)
    assert named(rows.get((bucket, Kind.MIRROR, "live")), lambda row: row.losses) == places(written - copied)
    if world.arrived:
        assert found(rows, bucket, Kind.BROKER, "offline") == expected(len(arrived), len(copied - arrived), 0)
        assert named(rows.get((bucket, Kind.BROKER, "offline")), lambda row: row.losses) == places(copied - arrived)


def check_consumer(world: World, rows: Rows, bucket: int) -> None:
    if not world.handled:
        return
    handled = {message for message in world.handled if message[2] == bucket}
    owed = owed_by_consumer(world, bucket)
    assert found(rows, bucket, Kind.CONSUMER) == expected(len(handled), len(owed - handled), 0)
    row = rows.get((bucket, Kind.CONSUMER, "live"))
    assert named(row, lambda row: row.losses) == places(owed - handled)
    assert (row.repeated if row else 0) == sum(times - 1 for message, times in world.handled.items() if message in handled)


@settings(max_examples=40, deadline=None)
@given(SEEDS, st.integers(0, 2**16))
def test_a_crash_between_any_two_writes_of_the_state_counts_nothing_twice_and_loses_nothing(seed: int, crash: int) -> None:
    world = World(Random(seed)).build()
    reports = world.reports()
    random = Random(crash)
    ledger, checkpoint, kept_buckets, kept_head = Ledger("t"), 0, {}, encode_head(Ledger("t").head)
    offset = 0
    while offset < len(reports):
        ledger.apply(reports[offset], offset=offset, arrived_ms=NOW_MS)
        offset += 1
        if random.random() < 0.3:
            writes = [("bucket", start) for start in sorted(ledger.changed)] + [("head", 0), ("checkpoint", offset)]
            is_crash = random.random() < 0.5
            for what, number in writes[: random.randrange(len(writes)) if is_crash else None]:
                if what == "bucket":
                    kept_buckets[number] = encode_bucket(ledger.buckets[number])
                elif what == "head":
                    kept_head = encode_head(ledger.head)
                else:
                    checkpoint = number
            ledger.changed.clear()
            if is_crash:
                ledger = Ledger("t")
                ledger.head = decode_head(kept_head)
                for data in kept_buckets.values():
                    ledger.add_part(decode_bucket(data))
                offset = checkpoint
    assert by_place(ledger) == rows_of(reports)


@settings(max_examples=40, deadline=None)
@given(SEEDS)
def test_audits_of_two_clusters_are_worth_as_much_as_one(seed: int) -> None:
    world = World(Random(seed)).build()
    reports = world.reports()
    ours, theirs = Ledger("t"), Ledger("t")
    for offset, report in enumerate(reports):
        (theirs if report.origin.cluster == "offline" else ours).apply(report, offset=offset, arrived_ms=NOW_MS)
    ours.merge(theirs)
    assert by_place(ours) == rows_of(reports)


@settings(max_examples=40, deadline=None)
@given(SEEDS)
def test_a_lost_report_of_a_producer_is_neither_loss_nor_duplicates(seed: int) -> None:
    world = World(Random(seed), reports_all=True).build()
    reports = world.reports()
    lost = Random(seed).choice([report for report in reports if report.origin == PRODUCER])
    rest = [report for report in reports if (report.reporter, report.sequence) != (lost.reporter, lost.sequence)]
    others = [report for report in rest if report.reporter == lost.reporter]
    buckets = {count.bucket for report in others for count in report.counts}
    # After a report that says it is the last one no other is expected; and the times of its messages are guessed by the others.
    is_noticed = any(report.sequence > lost.sequence or (report.sequence == lost.sequence - 1 and not report.is_last) for report in others)
    if not is_noticed or not {count.bucket for count in lost.counts} <= buckets:
        return
    for row in rows_of(rest).values():
        if row.tier.kind is Kind.BROKER and row.tier.cluster == "live":
            assert row.verdict in {Verdict.COMPLETE, Verdict.UNKNOWN}
            assert row.missing == 0


@settings(max_examples=60, deadline=None)
@given(SEEDS)
def test_what_was_deleted_before_it_was_counted_is_neither_lost_nor_too_much(seed: int) -> None:
    world = World(Random(seed), deletes=True).build()
    rows = rows_of(world.reports())
    first_offsets = {partition: min((one[1] for one in world.handled if one[0] == partition), default=None) for partition in PARTITIONS}
    for (bucket, kind, cluster), row in rows.items():
        counted = {message for message in world.log if message[2] == bucket} - world.deleted
        if kind == Kind.BROKER and cluster == "live":
            assert row.count == len(counted)
            assert row.verdict is not Verdict.MISSING
            assert not row.missing or row.verdict is Verdict.UNKNOWN
        elif kind == Kind.BROKER:
            assert (named(row, lambda row: row.losses), row.surplus) == (places((counted & world.copied) - world.arrived), 0)
        elif kind == Kind.MIRROR:
            assert (named(row, lambda row: row.losses), row.surplus) == (places(counted - world.copied), 0)
        elif kind == Kind.CONSUMER:
            began = {one for one in counted if (first := first_offsets[one[0]]) is not None and one[1] >= first}
            assert named(row, lambda row: row.losses) >= places(began - set(world.handled))
            assert not named(row, lambda row: row.losses) & places(world.deleted)
            assert row.surplus == 0


def test_the_world_has_all_tiers() -> None:
    world = World(Random(7)).build()
    assert {report.origin for report in world.reports()} == {PRODUCER, LIVE, MIRROR, OFFLINE, CONSUMER}


@settings(max_examples=40, deadline=None)
@given(SEEDS)
def test_verdicts_that_are_kept_are_those_that_a_fresh_look_gives(seed: int) -> None:
    random = Random(seed)
    world = World(random, deletes=random.random() < 0.5).build()
    ledger, keeping, now_ms = Ledger("t"), TopicJudge(), NOW_MS
    for offset, report in enumerate(world.reports()):
        now_ms += random.choice((0, 0, 5_000, 60_000))
        ledger.apply(report, offset=offset, arrived_ms=now_ms)
        if random.random() < 0.5:
            kept = [row for rows in keeping.judge(ledger, now_ms=now_ms).rows.values() for row in rows]
            # Bytes of a mirror are in proportion to all that it copied, and follow with the next change of a bucket.
            assert [replace(row, bytes=0) for row in kept] == [replace(row, bytes=0) for row in judge(ledger, now_ms=now_ms)]
