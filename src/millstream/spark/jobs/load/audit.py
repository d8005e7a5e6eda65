"""The tier of a load: what its tables have, reported to the audit from what stands in their commits.

A report is published after the commit of its micro-batch, and known by the query and the number of the micro-batch, so that it counts once
however often it comes. Which was published last stands beside the checkpoint: what a load had done and could not publish (without a
broker) is published from the logs of the tables when the load starts again. A micro-batch that Spark's checkpoint does not have as done is
left out: perhaps not all tables have it, and it comes again.

A load with a backlog says so, and how far it is: what it has not loaded yet is late then, and not missing.
"""

import json
from collections.abc import Mapping
from typing import Final

from millstream.audit.reports.report import Kind
from millstream.audited.batch_reports import BatchProgress, publish_batch, reporter_of
from millstream.audited.settings import AuditSettings
from millstream.lake.bucket_counts import audit_counts
from millstream.lake.load_batch import LoadBatch
from millstream.spark.jobs.load.settings import LoadSettings
from millstream.spark.jobs.load.tables import load_table
from millstream.spark.jobs.running.progress import local_directory, write_whole

FILE_NAME: Final = "millstream-audit.json"


def report_batch(
    settings: LoadSettings, query_id: str, batch_id: int, batches: Mapping[str, LoadBatch], *, next_report_ms: int | None = None
) -> None:
    """Report one micro-batch; a topic that it has nothing of is reported too, because reports are numbered without a gap.

    Where there is a backlog, the next report comes within `next_report_ms`; None: the load does not run.
    """
    if settings.audit is None:
        return
    progress = {
        topic: BatchProgress(batch.progress_ms, next_report_ms if batch.is_behind else None)
        for topic, batch in batches.items()
        if batch.progress_ms is not None
    }
    counts = {topic: audit_counts(batches[topic].counts) if topic in batches else [] for topic in settings.topics}
    is_published = publish_batch(
        AuditSettings(settings.audit, application=settings.job_name, options=settings.kafka),
        settings.brokers,
        Kind.LOAD,
        reporter=reporter_of(settings.audit, query_id),
        sequence=batch_id,
        counts=counts,
        progress=progress,
    )
    directory = local_directory(settings.checkpoint)
    if is_published and directory is not None:
        write_whole(directory / FILE_NAME, json.dumps({"published": batch_id}))


def report_unpublished(settings: LoadSettings, tables: Mapping[str, str]) -> None:
    """Report what a former run of the load has done and perhaps not published; `tables` has one table per topic."""
    directory = local_directory(settings.checkpoint)
    if settings.audit is None or directory is None or not (directory / "metadata").exists():
        return
    query_id = json.loads((directory / "metadata").read_text())["id"]
    published = directory / FILE_NAME
    after = json.loads(published.read_text())["published"] if published.exists() else -1
    done = {int(path.name) for path in (directory / "commits").glob("[0-9]*") if path.name.isdecimal()}
    if max(done, default=-1) <= after:
        return
    found: dict[int, dict[str, LoadBatch]] = {}
    for topic, table in tables.items():
        for batch in load_table(settings, table).batches(query_id, after=after):
            if batch.batch_id <= max(done):
                found.setdefault(batch.batch_id, {})[topic] = batch
    for batch_id, batches in sorted(found.items()):
        report_batch(settings, query_id, batch_id, batches)
