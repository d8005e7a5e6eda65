"""Reports as tests need them."""

from uuid import UUID

from millstream.audit.reports.report import Count, Delay, Kind, Origin, ReadRange, Report

REPORTER = UUID("00000000-0000-0000-0000-00000000000a")
BUCKET_MS = 600_000


def origin(tier: str = "web", kind: Kind = Kind.PRODUCER, cluster: str = "live") -> Origin:
    return Origin(tier, kind, application="shop", host="h1", datacentre="dc1", cluster=cluster)


def report(
    *counts: Count,
    reporter: UUID = REPORTER,
    sequence: int = 0,
    by: Origin | None = None,
    topic: str = "orders",
    sent_ms: int = 0,
    is_last: bool = False,
    progress_ms: int | None = None,
    read: tuple[ReadRange, ...] = (),
) -> Report:
    return Report(
        reporter=reporter,
        sequence=sequence,
        origin=by or origin(),
        topic=topic,
        bucket_ms=BUCKET_MS,
        sent_ms=sent_ms,
        interval_ms=10_000,
        is_last=is_last,
        progress_ms=progress_ms,
        counts=counts,
        read=read,
    )


DELAY = Delay(mean=3, p95=10, p99=12, max=90)
