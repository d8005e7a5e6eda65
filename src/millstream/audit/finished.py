"""When a bucket is finished: nothing more is expected of it, and it goes to the archive, as numbers."""

from collections.abc import Mapping
from typing import Final

from millstream.audit.ledger import MAX_OPEN_BUCKETS, Bucket, Ledger
from millstream.audit.reports.reporter import MAX_CLOCK_SKEW_MS
from millstream.audit.verdict import Row, Verdict

KEEP_SETTLED_MS: Final = 3_600_000
"""A complete bucket is kept with its offsets for so long, for tiers that come late."""
KEEP_OTHERS_MS: Final = 24 * 3_600_000
_SETTLED: Final = frozenset({Verdict.COMPLETE, Verdict.SURPLUS, Verdict.UNKNOWN})


def finished_buckets(ledger: Ledger, rows: Mapping[int, list[Row]], *, now_ms: int) -> list[int]:
    """Starts of the buckets that nothing more is expected of. Of too many, also those that nothing was said of for longest."""
    crowded = len(ledger.buckets) - MAX_OPEN_BUCKETS
    by_position = sorted(ledger.buckets.values(), key=lambda bucket: bucket.position)
    return [
        bucket.start
        for number, bucket in enumerate(by_position)
        if number < crowded or is_finished(bucket, rows.get(bucket.start, []), bucket_ms=ledger.bucket_ms, now_ms=now_ms)
    ]


def is_finished(bucket: Bucket, rows: list[Row], *, bucket_ms: int, now_ms: int) -> bool:
    """Whether the bucket ended, and was last spoken of, long enough ago for what was judged of it. Messages with other times than the
    clock's are in buckets that end never, or ended long ago: of these only the latter counts. What is reported of a bucket has to find it
    with all that was counted before."""
    end_ms = bucket.start + bucket_ms
    last_ms = max(end_ms if end_ms <= now_ms + MAX_CLOCK_SKEW_MS else 0, bucket.touched_ms if bucket.touched_ms <= now_ms else 0)
    is_settled = bool(rows) and all(row.verdict in _SETTLED for row in rows)
    return now_ms >= last_ms + (KEEP_SETTLED_MS if is_settled else KEEP_OTHERS_MS)


def is_forgotten(ledger: Ledger, now_ms: int) -> bool:
    """Whether no report of a topic came for a day, and all of it is in the archive."""
    heard_ms = max((one.arrived_ms for one in ledger.head.reporters.values()), default=0)
    return not ledger.buckets and now_ms >= heard_ms + KEEP_OTHERS_MS
