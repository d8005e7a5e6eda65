"""Reports of work that is done batch by batch and has its own idea of what was done: one report per batch, published when that is certain.

    publish_batch(settings, brokers, Kind.PRODUCER, reporter=reporter, sequence=7, counts={"clicks": [Count(bucket, 500, 12_000)]})

The reporter and the sequence name the batch, so that one which is done again after a crash is recognised: derive them from what the batch
is known by (`reporter_of`). A load into a lake does the same with `Kind.LOAD` and counts that have offsets; one that knows whole ranges of
offsets and not the times in them says `ANY_BUCKET`. What cannot be published is kept, and published with the next batch of this process.
"""

import logging
from collections.abc import Mapping, Sequence
from dataclasses import replace
from threading import Lock
from time import time
from typing import Final
from uuid import NAMESPACE_OID, UUID, uuid5

from millstream.audit.report import Count, Kind, Report
from millstream.audited.audit_topic import AuditTopic, open_audit_topic
from millstream.audited.settings import AuditSettings
from millstream.errors import MillstreamError

_log = logging.getLogger(__name__)

_MOST_KEPT: Final = 1_000

_kept: dict[str, list[Report]] = {}
"""By brokers, what could not be published yet."""
_kept_lock = Lock()
"""Queries of one process report from threads of their own."""


def reporter_of(*names: object) -> UUID:
    """The same reporter for the same names, in whichever process."""
    return uuid5(NAMESPACE_OID, "/".join(("millstream", *map(str, names))))


def publish_batch(
    settings: AuditSettings, brokers: str, kind: Kind, *, reporter: UUID, sequence: int, counts: Mapping[str, Sequence[Count]]
) -> bool:
    """Publish what one batch counted of each topic; trouble is logged, and never stops the batch. Whether it was published."""
    now_ms = int(time() * 1000)
    reports = [
        Report(
            reporter=reporter,
            sequence=sequence,
            origin=settings.origin(kind, ""),
            topic=topic,
            bucket_ms=settings.bucket_ms,
            sent_ms=now_ms,
            interval_ms=settings.interval_ms,
            is_last=True,
            progress_ms=now_ms,
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
