"""`millstream pipeline load`: topics into a lake, as flags or a TOML file say."""

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from millstream.cli.parameters import DEFAULT_BROKERS, ClientOptions
from millstream.cli.pipeline import load_flags as flags
from millstream.cli.pipeline.extras import need_extra
from millstream.cli.pipeline.parameters import Master, Quiet
from millstream.errors import UsageError

if TYPE_CHECKING:
    from millstream.spark.jobs.load.settings import LoadSettings

_REQUIRED = {"topics": "--topics A,B", "to": "--to PATH", "checkpoint": "--checkpoint DIR"}


def load(
    context: typer.Context,
    file: flags.File = None,
    *,
    topics: flags.Topics = None,
    to: flags.To = None,
    checkpoint: flags.Checkpoint = None,
    brokers: flags.Brokers = None,
    table: flags.Table = None,
    value_format: flags.ValueFormat = None,
    value_schema: flags.ValueSchema = None,
    key_format: flags.KeyFormat = None,
    key_schema: flags.KeySchema = None,
    registry: flags.Registry = None,
    headers: flags.Headers = None,
    event_time: flags.EventTime = None,
    sql: flags.Sql = None,
    once: flags.Once = None,
    every: flags.Every = None,
    starting: flags.Starting = None,
    batch_messages: flags.BatchMessages = None,
    name: flags.Name = None,
    audit: flags.Audit = None,
    dead_letters: flags.DeadLetters = None,
    fail_on_malformed: flags.FailOnMalformed = None,
    allow_data_loss: flags.AllowDataLoss = None,
    catalog: flags.Catalog = None,
    master: Master = None,
    quiet: Quiet = False,
    client_options: ClientOptions = None,
) -> None:
    """Load topics into tables, every message once, until it is stopped (Ctrl-C) or, with --once, has loaded what was there.

    Run it again with the same checkpoint to go on, also after it was killed. Tables are partitioned by event_date and event_hour.
    """
    from millstream.cli.properties import parse_assignments

    asked: dict[str, Any] = {
        "brokers": brokers, "to": to, "checkpoint": checkpoint, "table": table, "value_format": value_format,
        "value_schema": value_schema, "key_format": key_format, "key_schema": key_schema, "registry": registry, "headers": headers,
        "event_time": event_time, "sql": sql, "once": once, "starting": starting, "batch_messages": batch_messages, "name": name,
        "audit": audit, "dead_letters": dead_letters, "fail_on_malformed": fail_on_malformed, "allow_data_loss": allow_data_loss,
        "topics": None if topics is None else tuple(topic.strip() for topic in topics.split(",") if topic.strip()),
        "every": every if every is None or not every.replace(".", "", 1).isdecimal() else f"{round(float(every) * 1000)} ms",
        "catalog": parse_assignments(catalog) if catalog else None,
        "kafka": parse_assignments(client_options) if client_options else None,
    }  # fmt: skip
    given = {name: value for name, value in asked.items() if value is not None}
    if file is not None:
        given = {name: value for name, value in given.items() if not _is_from_elsewhere(context, name)}
    settings = _settings(file, given)
    raise typer.Exit(_run(settings, master=master, quiet=quiet))


def _is_from_elsewhere(context: typer.Context, name: str) -> bool:
    """Whether an environment variable or a profile says it, and not the command line."""
    source = context.get_parameter_source(name)
    return source is not None and source.name in {"ENVIRONMENT", "DEFAULT"}


def _settings(file: Path | None, given: dict[str, Any]) -> "LoadSettings":
    from millstream.spark.jobs.load.settings import LoadSettings

    if file is not None:
        from millstream.spark.jobs.description.job_file import read_job_of

        return replace(read_job_of(LoadSettings, file), **given)
    missing = [flag for name, flag in _REQUIRED.items() if name not in given]
    if missing:
        raise UsageError(f"What is to be loaded is not complete: give {', '.join(missing)}, or a FILE.toml that says it.")
    return LoadSettings(**{"brokers": DEFAULT_BROKERS, **given})


def _run(settings: "LoadSettings", *, master: str | None, quiet: bool) -> int:
    need_extra("spark", "pyspark", "pyarrow", "numba")
    need_extra("lake", "deltalake")
    if settings.table == "iceberg":
        need_extra("iceberg", "pyiceberg", "sqlalchemy")
    from millstream.spark.jobs.load.check import check_load
    from millstream.spark.session import check_java

    check_java()
    settings = settings.located()
    check_load(settings)
    from millstream.spark.jobs.load.load import start_load
    from millstream.spark.jobs.running.batch_progress import BatchCounts
    from millstream.spark.jobs.running.runner import run_job

    progress = BatchCounts()
    return run_job(
        lambda session: start_load(session, settings, progress),
        name=settings.job_name,
        master=master,
        checkpoint=settings.checkpoint,
        once=settings.once,
        quiet=quiet,
        brokers=settings.brokers,
        group=settings.group,
        counts=progress,
    )
