"""`millstream pipeline load`: topics into a lake."""

from typing import TYPE_CHECKING, Annotated

import typer

from millstream.cli.parameters import DEFAULT_BROKERS, Brokers, ClientOptions
from millstream.cli.pipeline.extras import need_extra
from millstream.cli.pipeline.parameters import Master, Quiet

if TYPE_CHECKING:
    from millstream.spark.jobs.load_settings import LoadSettings


def load(
    *,
    topics: Annotated[str, typer.Option(metavar="A,B", help="Topics to load, separated by commas.")],
    to: Annotated[str, typer.Option(metavar="PATH", help="Where the tables are: one per topic, PATH/TOPIC.")],
    checkpoint: Annotated[str, typer.Option(metavar="DIR", help="Where the load keeps how far it is.")],
    brokers: Brokers = DEFAULT_BROKERS,
    table: Annotated[str, typer.Option(metavar="delta|parquet", help="Kind of the tables.")] = "delta",
    value_format: Annotated[str, typer.Option(metavar="binary|string|json|avro", help="What the values are.")] = "binary",
    value_schema: Annotated[str | None, typer.Option(metavar="DDL", help="Columns of json values: 'id BIGINT, name STRING'.")] = None,
    key_format: Annotated[str, typer.Option(metavar="binary|string", help="What the keys are.")] = "binary",
    registry: Annotated[str | None, typer.Option(metavar="URL", help="Schema registry, for avro.")] = None,
    once: Annotated[bool, typer.Option("--once", help="Load what is there now, and end.")] = False,
    every: Annotated[float, typer.Option(metavar="SECONDS", help="Without --once: how often a micro-batch begins.")] = 10.0,
    starting: Annotated[str, typer.Option(metavar="earliest|latest", help="Where a topic without a table begins.")] = "earliest",
    batch_messages: Annotated[int, typer.Option(metavar="N", help="At most about so many messages per commit.")] = 5_000_000,
    name: Annotated[str, typer.Option(help="Name of the load; its lag is that of the group millstream-NAME.")] = "load",
    audit: Annotated[str | None, typer.Option(metavar="TIER", help="Report what was loaded to the audit, as this tier.")] = None,
    dead_letters: Annotated[
        str | None, typer.Option(metavar="TOPIC", help="Where messages go that cannot be read. [default: TOPIC-dead-letters]")
    ] = None,
    fail_on_malformed: Annotated[bool, typer.Option("--fail-on-malformed", help="End at a message that cannot be read.")] = False,
    allow_data_loss: Annotated[
        bool, typer.Option("--allow-data-loss", help="Go on where messages were deleted before they were loaded.")
    ] = False,
    master: Master = None,
    quiet: Quiet = False,
    client_options: ClientOptions = None,
) -> None:
    """Load topics into tables, every message once, until it is stopped (Ctrl-C) or, with --once, has loaded what was there.

    Run it again with the same checkpoint to go on, also after it was killed. Tables are partitioned by event_date and event_hour.
    """
    from millstream.cli.properties import parse_assignments
    from millstream.spark.jobs.load_settings import LoadSettings

    settings = LoadSettings(
        brokers=brokers,
        topics=tuple(topic.strip() for topic in topics.split(",") if topic.strip()),
        to=to,
        checkpoint=checkpoint,
        table=table,  # type: ignore[arg-type]  # the settings check these words themselves
        value_format=value_format,  # type: ignore[arg-type]
        value_schema=value_schema,
        key_format=key_format,  # type: ignore[arg-type]
        registry=registry,
        name=name,
        starting=starting,  # type: ignore[arg-type]
        once=once,
        every_s=every,
        batch_messages=batch_messages,
        audit=audit,
        dead_letters=dead_letters,
        fails_on_malformed=fail_on_malformed,
        fails_on_data_loss=not allow_data_loss,
        options=parse_assignments(client_options or []),
    )
    raise typer.Exit(_run(settings, master=master, quiet=quiet))


def _run(settings: "LoadSettings", *, master: str | None, quiet: bool) -> int:
    need_extra("spark", "pyspark", "pyarrow", "numba")
    need_extra("lake", "deltalake")
    from millstream.spark.jobs.batch_progress import BatchCounts
    from millstream.spark.jobs.load import start_load
    from millstream.spark.jobs.runner import run_job

    progress = BatchCounts()
    return run_job(
        lambda session: start_load(session, settings, progress),
        name=settings.name,
        master=master,
        checkpoint=settings.checkpoint,
        once=settings.once,
        quiet=quiet,
        brokers=settings.brokers,
        group=settings.group,
        counts=progress,
    )
