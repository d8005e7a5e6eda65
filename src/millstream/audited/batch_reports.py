"""Reports of work that is done batch by batch and has its own idea of what was done: one report per batch, published when that is certain.

    publish_batch(settings, brokers, Kind.PRODUCER, reporter=reporter, sequence=7, counts={"clicks": [Count(bucket, 500, 12_000)]})

`progress` is for who may be behind: up to which time of messages everything is counted, and within which time the next report comes.
Without it a batch says that it is all there is.

The reporter and the sequence name the batch, so that one which is done again after a crash is recognised: derive them from what the batch
is known by (`reporter_of`). A load into a lake does the same with `Kind.LOAD` and counts that have offsets; one that knows whole ranges of
offsets and not the times in them says `ANY_BUCKET`. What cannot be published is kept, and published with the next batch of this process.
"""

import logging
from collections.abc import Mapping, Sequence
from dataclasses import replace
from threading import Lock
from time import time
from typing import Final, NamedTuple
from uuid import NAMESPACE_OID, UUID, uuid5

from millstream.audit.reports.report import Count, Kind, Report
from millstream.audited.audit_topic import AuditTopic, open_audit_topic
from millstream.audited.settings import AuditSettings
from millstream.errors import MillstreamError

_log = logging.getLogger(__name__)

_MOST_KEPT: Final = 1_000
_FURTHEST_BEHIND_MS: Final = 23 * 3_600_000
"""What is further back than a day is taken for a wrong clock, not for a backlog."""

_kept: dict[str, list[Report]] = {}
"""By brokers, what could not be published yet."""
_kept_lock = Lock()
"""Queries of one process report from threads of their own."""


class BatchProgress(NamedTuple):
    """How far work in batches is that is not at the end of its topics."""

    progress_ms: int
    """No message from before this time is expected any more."""
    next_report_ms: int | None = None
    """The next report comes within so many milliseconds; None: the work is at the end, and there may be none for long."""


def reporter_of(*names: object) -> UUID:
    """The same reporter for the same names, in whichever process."""
    return uuid5(NAMESPACE_OID, "/".join(("millstream", *map(str, names))))


def publish_batch(
    settings: AuditSettings,
    brokers: str,
    kind: Kind,
    *,
    reporter: UUID,
    sequence: int,
    counts: Mapping[str, Sequence[Count]],
    progress: Mapping[str, BatchProgress] | None = None,
) -> bool:
    """Publish what one batch counted of each topic; trouble is logged, and never stops the batch. Whether it was published."""
    now_ms = int(time() * 1000)
    at_end = BatchProgress(now_ms)
    known = {topic: (progress or {}).get(topic, at_end) for topic in counts}
    reports = [
        Report(
            reporter=reporter,
            sequence=sequence,
            origin=settings.origin(kind, ""),
            topic=topic,
            bucket_ms=settings.bucket_ms,
            sent_ms=now_ms,
            interval_ms=known[topic].next_report_ms or settings.interval_ms,
            is_last=known[topic].next_report_ms is None,
            progress_ms=min(max(known[topic].progress_ms, now_ms - _FURTHEST_BEHIND_MS), now_ms),
            counts=tuple(some),
        )
        for topic, some in counts.items()
    ]
    with _kept_lock:
        waiting = _kept.pop(brokers, []) + reports
    try:
        topic = open_audit_topic(brokers, settings, {})
        try:
            _publish(topic, waiting)
        finally:
            topic.close()
    except MillstreamError as error:
        with _kept_lock:
            _kept[brokers] = (_kept.get(brokers, []) + waiting)[-_MOST_KEPT:]
        _log.warning("audit: the counts of %r cannot be published; they are kept for the next batch. %s", settings.tier, error)
        return False
    return True


def _publish(topic: AuditTopic, reports: Sequence[Report]) -> None:
    cluster = topic.cluster_id()
    topic.publish([replace(report, origin=report.origin._replace(cluster=cluster)) for report in reports])
