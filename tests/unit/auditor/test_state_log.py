import pytest

from millstream.audit.reports.report import Count
from millstream.audit.verdict import judge
from millstream.auditor.state_log import SPREAD, Entry, Newest, PartitionState, encode_spread, read_state
from millstream.errors import UsageError
from tests.unit.audit.some_reports import BUCKET_MS, report

DAY_MS = 24 * 3_600_000


def state_of(*buckets: int) -> PartitionState:
    """A state with one report of each bucket."""
    state = PartitionState(BUCKET_MS)
    for number, bucket in enumerate(buckets):
        made = report(Count(bucket, 5), sequence=number, sent_ms=bucket, is_last=True)
        state.ledger("a/b").apply(made, offset=state.position, arrived_ms=bucket)
        state.position += 1
        state.changed("a/b")
    return state


def counts(state: PartitionState) -> dict[int, int]:
    found: dict[int, int] = {}
    for ledger in state.ledgers.values():
        for start, bucket in ledger.buckets.items():
            found[start] = found.get(start, 0) + sum(count.count for count in bucket.tiers.values())
    for archive in state.archives.values():
        for row in archive.rows():
            found[row.bucket] = found.get(row.bucket, 0) + row.count
    return found


def finish(state: PartitionState, start: int) -> None:
    rows = [row for row in judge(state.ledger("a/b"), now_ms=start + DAY_MS) if row.bucket == start]
    state.finish("a/b", start, rows)


def test_the_state_comes_back_as_it_was_written() -> None:
    state = state_of(0, BUCKET_MS)
    restored = read_state(state.entries(), bucket_ms=BUCKET_MS)
    assert (counts(restored), restored.position, restored.checkpoint) == ({0: 5, BUCKET_MS: 5}, 2, 2)


def test_a_state_with_buckets_of_another_length_is_refused() -> None:
    with pytest.raises(UsageError, match=r"kept in buckets of 600 s, and not of 60 s: give the same length \(--bucket 600000ms"):
        read_state(state_of(0).entries(), bucket_ms=60_000)


def test_a_bucket_goes_to_the_archive_only_when_a_checkpoint_has_passed_it() -> None:
    state = state_of(0)
    assert not state.may_finish(state.ledger("a/b").buckets[0])
    state.written()
    assert state.may_finish(state.ledger("a/b").buckets[0])


def test_reports_of_absurd_numbers_leave_a_state_that_can_be_read() -> None:
    state = PartitionState(BUCKET_MS)
    for offset in range(2):
        absurd = report(Count(0, 2**63 - 1, 2**63 - 1), sequence=2**63 - 2 - offset, is_last=True)
        state.ledger("t").apply(absurd, offset=offset, arrived_ms=0)
    state.changed("t")
    restored = read_state(state.entries(), bucket_ms=BUCKET_MS)
    assert counts(restored) == {0: 2**63 - 1}
    assert len(restored.ledger("t").head.reporters) == 1


@pytest.mark.parametrize("written", range(6))
def test_a_crash_while_a_bucket_goes_to_the_archive_counts_it_once(written: int) -> None:
    state = state_of(0, BUCKET_MS)
    log = list(state.entries())
    state.written()
    finish(state, 0)
    log += list(state.entries())[:written]
    assert counts(read_state(log, bucket_ms=BUCKET_MS)) == {0: 5, BUCKET_MS: 5}


def test_archives_of_former_days_leave_memory_and_are_not_written_over() -> None:
    state = state_of(0, BUCKET_MS, DAY_MS)
    log: list[Entry] = list(state.entries())
    state.written()
    for start in (0, DAY_MS, BUCKET_MS):
        finish(state, start)
        log += state.entries()
        state.written()
    assert len(state.archives) == 2
    assert counts(read_state(log, bucket_ms=BUCKET_MS)) == {0: 5, BUCKET_MS: 5, DAY_MS: 5}


def test_memory_is_flat_however_many_buckets_go_by() -> None:
    state = PartitionState(BUCKET_MS)
    for number in range(2_000):
        bucket = number * BUCKET_MS
        made = report(Count(bucket, 5), sequence=number, sent_ms=bucket)
        state.ledger("t").apply(made, offset=number, arrived_ms=bucket)
        state.position = number + 1
        state.changed("t")
        state.written()
        state.finish("t", bucket, [])
        state.written()
    ledger = state.ledger("t")
    assert (len(ledger.buckets), len(ledger.changed)) == (0, 0)
    assert sum(map(len, state.archives.values())) <= 2 * DAY_MS // BUCKET_MS
    assert len(ledger.head.reporters) == 1
    assert sum(len(entry.value or b"") for entry in state.entries()) < 20_000


def test_what_a_zombie_writes_is_ignored_and_repaired() -> None:
    log = [Entry(b"h/a", b"1", 4), Entry(b"h/b", b"2", 4), Entry(b"h/c", b"3", 4)]
    log += [Entry(b"o", b"{}", 5), Entry(b"h/a", b"one", 5), Entry(b"h/c", None, 5)]
    log += [Entry(b"h/a", b"old", 4), Entry(b"h/b", None, 4), Entry(b"h/c", b"old", 4), Entry(b"h/d", b"old", 4)]
    newest = Newest(log)
    assert newest.values == {b"o": b"{}", b"h/a": b"one", b"h/b": b"2"}
    assert newest.repairs() == {b"h/a": b"one", b"h/b": b"2", b"h/c": None, b"h/d": None}
    # As a compaction leaves it: one record of each key.
    log += [Entry(key, value, 5) for key, value in newest.repairs().items()]
    compacted = {entry.key: entry for entry in log}
    assert Newest(compacted.values()).values == newest.values
    assert Newest(log).repairs() == {}


def test_repairs_are_written_first_and_once() -> None:
    state = state_of(0)
    state.written()
    had_changed = state.has_changed
    state.repairs, state.term = {b"h/x": None, b"c": b"old"}, 7
    assert (had_changed, state.has_changed) == (False, True)
    entries = []
    for entry in state.entries():
        entries.append(entry)
        # Found while the others are written: for the next time.
        state.repairs[b"h/y"] = None
    assert [entry.key for entry in entries] == [b"h/x", b"c", b"c"]
    assert {entry.term for entry in entries} == {7}
    state.written()
    assert state.repairs == {b"h/y": None}


def test_the_number_of_partitions_counts_whoever_wrote_it() -> None:
    log = [Entry(b"o", b"{}", 5), Entry(SPREAD, encode_spread(8)), Entry(SPREAD, b"x"), Entry(SPREAD, b'{"partitions": 0}')]
    assert read_state(log, bucket_ms=BUCKET_MS).spread == 8
    assert Newest(log).repairs() == {}


def test_only_topics_that_are_wanted_are_read() -> None:
    state = state_of(0)
    state.ledger("other").apply(report(Count(0, 5), topic="other"), offset=1, arrived_ms=0)
    state.changed("other")
    log = list(state.entries())
    assert set(read_state(log, bucket_ms=BUCKET_MS, wants="a/b".__eq__).ledgers) == {"a/b"}
    state.written()
    finish(state, 0)
    assert read_state([*log, *state.entries()], bucket_ms=BUCKET_MS, wants="other".__eq__).archives == {}


def test_buckets_of_other_times_do_not_break_up_the_archive_of_today() -> None:
    state = state_of(*(number * BUCKET_MS for number in range(20)))
    state.written()
    keys = set()
    for number in range(10):
        finish(state, number * BUCKET_MS)
        far = 1_000 * DAY_MS + number * BUCKET_MS
        state.ledger("a/b").apply(report(Count(far, 1), sequence=100 + number), offset=state.position, arrived_ms=0)
        state.position += 1
        state.finish("a/b", far, [])
        keys |= {entry.key for entry in state.entries() if entry.key.startswith(b"a/") and entry.value is not None}
        state.written()
    assert len(keys) == 2


def test_a_topic_that_is_gone_leaves_the_state_and_stays_in_the_archive() -> None:
    state = state_of(0)
    log = list(state.entries())
    state.written()
    finish(state, 0)
    state.forget("a/b")
    log += state.entries()
    restored = read_state(log, bucket_ms=BUCKET_MS)
    assert (restored.ledgers, counts(restored)) == ({}, {0: 5})


def test_an_audit_topic_that_was_created_anew_is_read_from_its_start() -> None:
    state = state_of(0, BUCKET_MS)
    state.written()
    state.begin_again()
    again = report(Count(0, 7), sequence=2, sent_ms=0, is_last=True)
    state.ledger("a/b").apply(again, offset=0, arrived_ms=0)
    state.position = 1
    assert counts(read_state(state.entries(), bucket_ms=BUCKET_MS)) == {0: 12, BUCKET_MS: 5}


@pytest.mark.parametrize(
    "entry",
    [(b"x/y", b"{}"), (b"h/t", b"[]"), (b"b/t/0/0", b"{}"), (b"a/t/0/x", b"\0\0"), (b"b/t", b"{}"), (b"\xff", b"{}"), (b"c", b"{")],
)
def test_what_makes_no_sense_is_said_and_left_out(entry: tuple[bytes, bytes], caplog: pytest.LogCaptureFixture) -> None:
    restored = read_state([*state_of(0).entries(), Entry(*entry)], bucket_ms=BUCKET_MS)
    assert counts(restored) == {0: 5}
    assert "makes no sense and is ignored" in caplog.text
