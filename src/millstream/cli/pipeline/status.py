"""`millstream pipeline status`: how a job goes, seen from outside: what it said last, and its group's lag by the brokers."""

from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated, Any

import typer

from millstream.cli.output import format_timestamp, print_json, print_table
from millstream.cli.parameters import ClientOptions, Output, OutputFormat
from millstream.errors import MillstreamError

if TYPE_CHECKING:
    from millstream.spark.jobs.running.progress import JobProgress


def status(
    *,
    checkpoint: Annotated[str, typer.Option("--checkpoint", metavar="DIR", help="Directory of the job's checkpoint.")],
    brokers: Annotated[
        str | None, typer.Option("-b", "--brokers", metavar="HOST:PORT[,...]", help="Ask these brokers for the lag. [default: the job's]")
    ] = None,
    output: OutputFormat = Output.TABLE,
    client_options: ClientOptions = None,
) -> None:
    """Show the last progress of a job, and how far its consumer group is behind; exit 1 if the job failed or was killed."""
    from millstream.spark.jobs.running.progress import read_job_progress

    progress = read_job_progress(checkpoint)
    lag = _group_lag(progress, brokers, client_options)
    if output is Output.JSON:
        print_json({**asdict(progress), "group_lag": lag})
    else:
        _print(progress, lag)
    if progress.state in {"failed", "killed"}:
        raise typer.Exit(1)


def _group_lag(progress: "JobProgress", brokers: str | None, client_options: list[str] | None) -> Any:
    """What the brokers say about the group, or why they do not."""
    servers = brokers or progress.brokers
    if progress.group is None or servers is None:
        return None
    from millstream.cli.group.consumer_groups import committed_offsets, offset_ranges
    from millstream.cli.group.lag import lags, total
    from millstream.cli.kafka_client import Cluster

    try:
        cluster = Cluster.of(servers, client_options)
        admin = cluster.admin()
        committed = committed_offsets(cluster, admin, groups=[progress.group])[progress.group]
        ranges = offset_ranges(cluster, admin, places=sorted(committed))
        with cluster.reader() as reader:
            behind = total(lags(reader, dict(committed), ranges=ranges).values())
    except MillstreamError as error:
        return {"error": str(error)}
    return {"lag": behind.messages, "lag_seconds": behind.seconds}


def _print(progress: "JobProgress", lag: Any) -> None:
    left_out = f"{progress.malformed:,} malformed, {progress.late:,} late, {progress.untimed:,} without a time"
    rows: list[tuple[str, object]] = [
        ("job", f"{progress.name} ({progress.state})"),
        ("process", f"{progress.pid} on {progress.host}"),
        ("started", format_timestamp(progress.started_ms)),
        ("last news", format_timestamp(progress.at_ms)),
        ("since its start", f"{progress.rows:,} rows in {progress.batches:,} batches, {left_out}"),
    ]
    if progress.last is not None:
        last = progress.last
        rows.append(("last batch", f"{last.batch_id}: {last.rows:,} rows, {last.rows_per_second:,.0f} rows/s, {last.duration_ms:,} ms"))
        if last.lag_messages is not None:
            rows.append(("lag then", f"{last.lag_messages:,} messages, {last.lag_seconds or 0:.1f} s"))
        if last.watermark:
            rows.append(("watermark", last.watermark))
    if lag is not None:
        said = lag.get("error") or f"{lag['lag']:,} messages, {lag['lag_seconds'] or 0:.1f} s"
        rows.append((f"lag of the group {progress.group} now", said))
    if progress.error:
        rows.append(("error", progress.error))
    print_table(["", ""], rows)
