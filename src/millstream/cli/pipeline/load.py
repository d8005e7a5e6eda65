"""`millstream pipeline load`: topics into a lake, as flags or a TOML file say."""

import os
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from millstream.cli.parameters import DEFAULT_BROKERS, ClientOptions
from millstream.cli.pipeline.extras import need_extra
from millstream.cli.pipeline.parameters import Master, Quiet
from millstream.errors import UsageError

if TYPE_CHECKING:
    from millstream.spark.jobs.load_settings import LoadSettings

_REQUIRED = {"topics": "--topics A,B", "to": "--to PATH", "checkpoint": "--checkpoint DIR"}


def load(
    file: Annotated[Path | None, typer.Argument(metavar="[FILE.toml]", help="The load as a file; flags count more than it.")] = None,
    *,
    topics: Annotated[str | None, typer.Option(metavar="A,B", help="Topics to load, separated by commas.")] = None,
    to: Annotated[str | None, typer.Option(metavar="PATH", help="Where the tables are: one per topic, PATH/TOPIC.")] = None,
    checkpoint: Annotated[str | None, typer.Option(metavar="DIR", help="Where the load keeps how far it is.")] = None,
    brokers: Annotated[
        str | None,
        typer.Option("-b", "--brokers", metavar="HOST:PORT[,...]", help="Brokers to ask first.", show_default=DEFAULT_BROKERS),
    ] = None,
    table: Annotated[str | None, typer.Option(metavar="delta|iceberg|parquet", help="Kind of the tables.", show_default="delta")] = None,
    value_format: Annotated[
        str | None, typer.Option(metavar="binary|string|json|avro", help="What the values are.", show_default="binary")
    ] = None,
    value_schema: Annotated[str | None, typer.Option(metavar="DDL", help="Columns of json values: 'id BIGINT, name STRING'.")] = None,
    key_format: Annotated[
        str | None, typer.Option(metavar="binary|string|json|avro", help="What the keys are.", show_default="binary")
    ] = None,
    key_schema: Annotated[str | None, typer.Option(metavar="DDL", help="Columns of json keys.")] = None,
    registry: Annotated[str | None, typer.Option(metavar="URL", help="Schema registry, for avro.")] = None,
    headers: Annotated[bool | None, typer.Option("--headers", help="Add a column kafka_headers.")] = None,
    event_time: Annotated[
        str | None, typer.Option(metavar="FIELD", help="Date and hour are those of this field. [default: of the message]")
    ] = None,
    sql: Annotated[str | None, typer.Option(metavar="QUERY", help="Load what this makes of them: SELECT ... FROM messages.")] = None,
    once: Annotated[bool | None, typer.Option("--once", help="Load what is there now, and end.")] = None,
    every: Annotated[
        str | None, typer.Option(metavar="SECONDS", help="Without --once: how often a micro-batch begins.", show_default="10 seconds")
    ] = None,
    starting: Annotated[
        str | None, typer.Option(metavar="earliest|latest", help="Where a topic without a table begins.", show_default="earliest")
    ] = None,
    batch_messages: Annotated[
        int | None, typer.Option(metavar="N", help="At most about so many messages per commit.", show_default="5000000")
    ] = None,
    name: Annotated[
        str | None,
        typer.Option(help="Name of the load; its lag is that of the group millstream-pipeline-NAME. [default: after the checkpoint]"),
    ] = None,
    audit: Annotated[str | None, typer.Option(metavar="TIER", help="Report what was loaded to the audit, as this tier.")] = None,
    dead_letters: Annotated[
        str | None, typer.Option(metavar="TOPIC", help="Where messages go that cannot be read. [default: TOPIC-dead-letters]")
    ] = None,
    fail_on_malformed: Annotated[bool | None, typer.Option("--fail-on-malformed", help="End at a message that cannot be read.")] = None,
    allow_data_loss: Annotated[
        bool | None, typer.Option("--allow-data-loss", help="Go on where messages were deleted before they were loaded.")
    ] = None,
    catalog: Annotated[
        list[str] | None, typer.Option(metavar="NAME=VALUE", help="Property of the Iceberg catalog. [default: SQLite in PATH]")
    ] = None,
    master: Master = None,
    quiet: Quiet = False,
    client_options: ClientOptions = None,
) -> None:
    """Load topics into tables, every message once, until it is stopped (Ctrl-C) or, with --once, has loaded what was there.

    Run it again with the same checkpoint to go on, also after it was killed. Tables are partitioned by event_date and event_hour.
    """
    from millstream.cli.properties import parse_assignments

    flags: dict[str, Any] = {
        "brokers": brokers, "to": to, "checkpoint": checkpoint, "table": table, "value_format": value_format,
        "value_schema": value_schema, "key_format": key_format, "key_schema": key_schema, "registry": registry, "headers": headers,
        "event_time": event_time, "sql": sql, "once": once, "starting": starting, "batch_messages": batch_messages, "name": name,
        "audit": audit, "dead_letters": dead_letters, "fail_on_malformed": fail_on_malformed, "allow_data_loss": allow_data_loss,
        "topics": None if topics is None else tuple(topic.strip() for topic in topics.split(",") if topic.strip()),
        "every": every if every is None or not every.replace(".", "", 1).isdecimal() else f"{round(float(every) * 1000)} ms",
        "catalog": parse_assignments(catalog) if catalog else None,
        "kafka": parse_assignments(client_options) if client_options else None,
    }  # fmt: skip
    settings = _settings(file, {name: value for name, value in flags.items() if value is not None})
    raise typer.Exit(_run(settings, master=master, quiet=quiet))


def _settings(file: Path | None, given: dict[str, Any]) -> "LoadSettings":
    from millstream.spark.jobs.load_settings import LoadSettings

    if file is not None:
        from millstream.spark.jobs.job_file import read_job_of

        return replace(read_job_of(LoadSettings, file), **given)
    missing = [flag for name, flag in _REQUIRED.items() if name not in given]
    if missing:
        raise UsageError(f"What is to be loaded is not complete: give {', '.join(missing)}, or a FILE.toml that says it.")
    return LoadSettings(**{"brokers": os.environ.get("MILLSTREAM_BROKERS", DEFAULT_BROKERS), **given})


def _run(settings: "LoadSettings", *, master: str | None, quiet: bool) -> int:
    need_extra("spark", "pyspark", "pyarrow", "numba")
    need_extra("lake", "deltalake")
    if settings.table == "iceberg":
        need_extra("iceberg", "pyiceberg", "sqlalchemy")
    from millstream.spark.jobs.load_check import check_load
    from millstream.spark.session import check_java

    check_java()
    settings = settings.located()
    check_load(settings)
    from millstream.spark.jobs.batch_progress import BatchCounts
    from millstream.spark.jobs.load import start_load
    from millstream.spark.jobs.runner import run_job

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
