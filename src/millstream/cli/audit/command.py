"""`millstream audit`: did every message that was sent arrive at every tier? Counts reports and logs of any Kafka, shows what they say."""

import re
import signal
import threading
import time
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from millstream.cli.parameters import DEFAULT_BROKERS, ClientOptions
from millstream.cli.properties import parse_assignments, read_properties
from millstream.errors import CommandFailed, UsageError
from millstream.log_lines import LOG_LEVELS, log_to_stderr

if TYPE_CHECKING:
    from millstream.audit.summary import Selection
    from millstream.auditor.settings import AuditorSettings
    from millstream.auditor.snapshot import Snapshot

app = typer.Typer(
    help="Prove that every message arrived: count reports of tiers and logs, and show what is missing where.", no_args_is_help=True
)

EXIT_INCOMPLETE = 3
_DURATION = re.compile(r"(\d+)(ms|s|m|h|d)")
_UNITS_MS = {"ms": 1, "s": 1_000, "m": 60_000, "h": 3_600_000, "d": 86_400_000}

Clusters = Annotated[
    list[str] | None,
    typer.Option(
        "-b",
        "--brokers",
        metavar="HOST:PORT[,...]",
        envvar="MILLSTREAM_BROKERS",
        help="Brokers of a cluster, Millstream or Kafka; repeat it for several clusters.",
        show_default=DEFAULT_BROKERS,
    ),
]
Configs = Annotated[
    list[Path] | None,
    typer.Option("--config", metavar="FILE", help="Options of the client for one cluster, in the order of --brokers; repeatable."),
]
BucketLength = Annotated[str, typer.Option("--bucket", metavar="TIME", help="Length of a bucket: 10m, 60s, 1h.")]
Grace = Annotated[str, typer.Option("--grace", metavar="TIME", help="How long after its end a bucket is open.")]
Registry = Annotated[str | None, typer.Option("--registry", metavar="URL", help="The schema registry, for reports in Avro.")]
NoLogs = Annotated[bool, typer.Option("--no-logs", help="Do not count the logs of the brokers.")]


@app.command("run")
def run(
    *,
    brokers: Clusters = None,
    topics: Annotated[str | None, typer.Option("--topics", metavar="REGEX", help="Also count logs that no tier reports of.")] = None,
    bucket: BucketLength = "10m",
    grace: Grace = "10s",
    threshold: Annotated[
        float, typer.Option("--threshold", min=0.0, max=1.0, help="Raise an alarm for a bucket that is complete to less than this.")
    ] = 0.999,
    webhook: Annotated[str | None, typer.Option("--webhook", metavar="URL", help="POST each alarm there, as JSON.")] = None,
    metrics_file: Annotated[
        Path | None, typer.Option("--metrics-file", metavar="FILE", help="Keep the number of alarms there, for Prometheus.")
    ] = None,
    registry: Registry = None,
    no_logs: NoLogs = False,
    log_level: Annotated[str, typer.Option("--log-level", help="How much to log on stderr: debug, info, warning, error.")] = "info",
    config: Configs = None,
    client_options: ClientOptions = None,
) -> None:
    """Audit one or several clusters until stopped: sum the reports, count the logs, keep the state, raise alarms.

    Several may run on one cluster and share its topics. The state is in the topic _audit_state: any other goes on after one that is killed.
    """
    if log_level not in LOG_LEVELS:
        raise UsageError(f"--log-level is one of {', '.join(LOG_LEVELS)}, and not {log_level!r}.")
    from millstream.auditor.alarm_sinks import AlarmSinks
    from millstream.auditor.auditor import Auditor
    from millstream.auditor.webhook import Webhook

    clusters = _clusters(brokers, config, client_options, bucket=bucket, grace=grace, registry=registry, no_logs=no_logs)
    found = [_with(settings, topics=_pattern(topics, "--topics"), threshold=threshold) for settings in clusters]
    sinks = AlarmSinks(webhook=Webhook(webhook) if webhook is not None else None, metrics_file=metrics_file)
    log_to_stderr(log_level)
    stop = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: stop.set())
    sinks.write_metrics()
    print("ready: audit", *(settings.brokers for settings in found), flush=True)
    try:
        Auditor(found, alarms=sinks).run(stop)
    finally:
        sinks.close()


@app.command("report")
def report(
    *,
    brokers: Clusters = None,
    since: Annotated[str | None, typer.Option("--since", metavar="TIME", help="Buckets from then on: 2026-11-16T06:00, or 2h ago.")] = None,
    until: Annotated[str | None, typer.Option("--until", metavar="TIME", help="Buckets before then.")] = None,
    topic: Annotated[str | None, typer.Option("--topic", metavar="REGEX", help="Only topics with this name.")] = None,
    tier: Annotated[str | None, typer.Option("--tier", metavar="NAME", help="Only this tier.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="One JSON object per bucket and tier, on a line each.")] = False,
    html: Annotated[Path | None, typer.Option("--html", metavar="FILE", help="Write a page with a heat map of topics by buckets.")] = None,
    fail_under: Annotated[
        float | None,
        typer.Option(
            "--fail-under", metavar="SHARE", min=0.0, max=1.0, help="Exit with 3 if a bucket that is over is complete to less: 0.999."
        ),
    ] = None,
    bucket: BucketLength = "10m",
    grace: Grace = "10s",
    registry: Registry = None,
    no_logs: NoLogs = False,
    config: Configs = None,
    client_options: ClientOptions = None,
) -> None:
    """Show what arrived where: per topic, bucket and tier, how many messages, how many are missing, and between which two tiers.

    Needs no auditor that runs: what none has counted yet is counted now, and not kept.
    """
    from millstream.audit.summary import Selection
    from millstream.auditor.snapshot import take_snapshot

    now_ms = int(time.time() * 1000)
    selection = Selection(_moment(since, "--since", now_ms), _moment(until, "--until", now_ms), _pattern(topic, "--topic"), tier)
    clusters = _clusters(brokers, config, client_options, bucket=bucket, grace=grace, registry=registry, no_logs=no_logs)
    log_to_stderr("error")
    snapshot = take_snapshot(clusters, wants=selection.has_topic)
    lowest = _show(snapshot, selection, as_json=as_json, html=html, grace_ms=clusters[0].grace_ms)
    if fail_under is not None and lowest < fail_under:
        raise typer.Exit(EXIT_INCOMPLETE)


def _show(snapshot: "Snapshot", selection: "Selection", *, as_json: bool, html: Path | None, grace_ms: int) -> float:
    """Print what is asked for; returns the completeness of the worst bucket that is over."""
    from millstream.audit.summary import TopicAudit
    from millstream.audit.verdict import Verdict
    from millstream.cli.audit.output import (
        MOST_TOPICS_BY_BUCKET,
        print_buckets,
        print_problems,
        print_remarks,
        print_rows,
        print_summaries,
    )
    from millstream.cli.audit.page import audit_page

    now_ms = int(time.time() * 1000)
    audits = {
        name: TopicAudit(snapshot.ledger(name), snapshot.archives.get(name, []), now_ms=now_ms, grace_ms=grace_ms)
        for name in snapshot.topics()
    }
    if as_json:
        for audit in audits.values():
            print_rows(audit.rows(selection))
    summaries = [audit.summary(selection) for audit in audits.values()]
    summaries = [summary for summary in summaries if summary.tiers]
    known = sorted({*snapshot.topics(), *snapshot.unwanted})
    # To stderr: what is asked for in vain may be a typing error, and an empty report looks as if all were well.
    if not summaries and known:
        typer.echo(f"nothing that was asked for; the audit knows the topics {', '.join(known[:20])}", err=True)
    elif not summaries:
        typer.echo(
            "no producer, consumer or mirror has reported to the audit yet: each does when it is given a tier's name (audit=)", err=True
        )
    if html is not None:
        _write_page(html, audit_page(summaries, made=datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC")))
    problems = [row for summary in summaries for row in summary.problems]
    if not as_json:
        print_summaries(summaries)
        for summary in summaries if len(summaries) <= MOST_TOPICS_BY_BUCKET else []:
            print_buckets(summary.topic, list(audits[summary.topic].rows(selection)))
        print_problems(problems)
        print_remarks([remark.text for audit in audits.values() for remark in audit.remarks()])
        if snapshot.malformed:
            print(f"{snapshot.malformed} messages of _audit are no reports and were left out.")
    incomplete = [row.completeness for row in problems if row.verdict in (Verdict.MISSING, Verdict.LATE)]
    return min(incomplete, default=1.0)


def _write_page(file: Path, page: str) -> None:
    try:
        file.write_text(page, encoding="utf-8")
    except OSError as error:
        raise CommandFailed(f"--html {file}: the page cannot be written: {error.strerror}.") from None


def _clusters(
    brokers: list[str] | None,
    configs: list[Path] | None,
    client_options: list[str] | None,
    *,
    bucket: str,
    grace: str,
    registry: str | None,
    no_logs: bool,
) -> "list[AuditorSettings]":
    from millstream.auditor.settings import AuditorSettings

    named = brokers or [DEFAULT_BROKERS]
    if len(configs or []) > len(named):
        raise UsageError(f"{len(configs or [])} files with --config are too many for {len(named)} clusters with --brokers.")
    files = [*map(read_properties, configs or []), *[{}] * len(named)]
    options = parse_assignments(client_options or [])
    found = [
        AuditorSettings(
            client_options={**file, **options, "bootstrap.servers": one},
            bucket_ms=_duration_ms(bucket, "--bucket"),
            grace_ms=_duration_ms(grace, "--grace"),
            registry=registry,
            reads_logs=not no_logs,
        )
        for one, file in zip(named, files, strict=False)
    ]
    for settings in found:
        _ = settings.security  # what is wrong with it is said now
    return found


def _with(settings: "AuditorSettings", *, topics: re.Pattern[str] | None, threshold: float) -> "AuditorSettings":
    from dataclasses import replace

    return replace(settings, topics=topics, threshold=threshold)


def _pattern(text: str | None, flag: str) -> re.Pattern[str] | None:
    try:
        return None if text is None else re.compile(text)
    except re.error as error:
        raise UsageError(f"{flag} {text}: not a regular expression: {error}.") from None


def _duration_ms(text: str, flag: str) -> int:
    match = _DURATION.fullmatch(text)
    if match is None or (flag == "--bucket" and int(match[1]) == 0):
        raise UsageError(f"{flag} {text}: expected a number and a unit: 500ms, 30s, 10m, 1h, 7d.")
    return int(match[1]) * _UNITS_MS[match[2]]


def _moment(text: str | None, flag: str, now_ms: int) -> int | None:
    """A time, or so long ago."""
    if text is None:
        return None
    if _DURATION.fullmatch(text):
        return now_ms - _duration_ms(text, flag)
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        raise UsageError(
            f"{flag} {text}: expected a time such as 2026-11-16T06:00 (in UTC unless it says otherwise), or 2h for so long ago."
        ) from None
    return int((moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp() * 1000)
