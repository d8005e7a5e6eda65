from collections.abc import Iterable

import pytest

from millstream.audit.report import Count
from millstream.audit.verdict import judge
from millstream.auditor.state_log import Entry, PartitionState, read_state
from millstream.errors import UsageError
from tests.unit.audit.reports import BUCKET_MS, report

DAY_MS = 24 * 3_600_000


def state_of(*buckets: int) -> PartitionState:
    """A state with one report of each bucket."""
    state = PartitionState(BUCKET_MS)
    for number, bucket in enumerate(buckets):
        told = report(Count(bucket, 5), sequence=number, sent_ms=bucket, is_last=True)
        state.ledger("a/b").apply(told, offset=state.position, arrived_ms=bucket)
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
    assert len(state.archives) == 1
    assert counts(read_state(log, bucket_ms=BUCKET_MS)) == {0: 5, BUCKET_MS: 5, DAY_MS: 5}


def test_memory_is_flat_however_many_buckets_go_by() -> None:
    state = PartitionState(BUCKET_MS)
    for number in range(2_000):
        bucket = number * BUCKET_MS
        told = report(Count(bucket, 5), sequence=number, sent_ms=bucket)
        state.ledger("t").apply(told, offset=number, arrived_ms=bucket)
        state.position = number + 1
        state.changed("t")
        state.written()
        state.finish("t", bucket, [])
        state.written()
    ledger = state.ledger("t")
    assert (len(ledger.buckets), len(ledger.changed)) == (0, 0)
    assert len(state.archives) <= 2
    assert sum(map(len, state.archives.values())) <= DAY_MS // BUCKET_MS
    assert len(ledger.head.reporters) == 1
    assert sum(len(value or b"") for _, value in state.entries()) < 20_000


@pytest.mark.parametrize(
    "entry",
    [(b"x/y", b"{}"), (b"h/t", b"[]"), (b"b/t/0/0", b"{}"), (b"a/t/0/x", b"\0\0"), (b"b/t", b"{}"), (b"\xff", b"{}"), (b"c", b"{")],
)
def test_what_makes_no_sense_is_said_and_left_out(entry: Entry, caplog: pytest.LogCaptureFixture) -> None:
    log: Iterable[Entry] = [*state_of(0).entries(), entry]
    restored = read_state(log, bucket_ms=BUCKET_MS)
    assert counts(restored) == {0: 5}
    assert "makes no sense and is ignored" in caplog.text
