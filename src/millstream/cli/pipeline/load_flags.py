"""The flags of `millstream pipeline load`: each may be missing, because a file may say it.

Environment variables and profiles stand in for flags where there is no file; a file says all that it needs.
"""

from pathlib import Path
from typing import Annotated

import typer

from millstream.cli.parameters import DEFAULT_BROKERS

File = Annotated[Path | None, typer.Argument(metavar="FILE.toml", help="The load as a file; flags count more than it.")]
Topics = Annotated[str | None, typer.Option(metavar="A,B", help="Topics to load, separated by commas.")]
To = Annotated[str | None, typer.Option(metavar="PATH", help="Where the tables are: one per topic, PATH/TOPIC.")]
Checkpoint = Annotated[str | None, typer.Option(metavar="DIR", help="Where the load keeps how far it is.")]
Brokers = Annotated[
    str | None,
    typer.Option(
        "-b",
        "--brokers",
        metavar="HOST:PORT[,...]",
        envvar="MILLSTREAM_BROKERS",
        help="Brokers to ask first.",
        show_default=DEFAULT_BROKERS,
    ),
]
Table = Annotated[str | None, typer.Option(metavar="delta|iceberg|parquet", help="Kind of the tables.", show_default="delta")]
ValueFormat = Annotated[str | None, typer.Option(metavar="binary|string|json|avro", help="What the values are.", show_default="binary")]
ValueSchema = Annotated[str | None, typer.Option(metavar="DDL", help="Columns of json values: 'id BIGINT, name STRING'.")]
KeyFormat = Annotated[str | None, typer.Option(metavar="binary|string|json|avro", help="What the keys are.", show_default="binary")]
KeySchema = Annotated[str | None, typer.Option(metavar="DDL", help="Columns of json keys.")]
Registry = Annotated[str | None, typer.Option(metavar="URL", envvar="MILLSTREAM_REGISTRY", help="Schema registry, for avro.")]
Headers = Annotated[bool | None, typer.Option("--headers", help="Add a column kafka_headers.")]
EventTime = Annotated[str | None, typer.Option(metavar="FIELD", help="Date and hour are those of this field. [default: of the message]")]
Sql = Annotated[str | None, typer.Option(metavar="QUERY", help="Load what this makes of them: SELECT ... FROM messages.")]
Once = Annotated[bool | None, typer.Option("--once", help="Load what is there now, and end.")]
Every = Annotated[
    str | None, typer.Option(metavar="SECONDS", help="Without --once: how often a micro-batch begins.", show_default="10 seconds")
]
Starting = Annotated[
    str | None, typer.Option(metavar="earliest|latest", help="Where a topic without a table begins.", show_default="earliest")
]
BatchMessages = Annotated[int | None, typer.Option(metavar="N", help="At most about so many messages per commit.", show_default="5000000")]
Name = Annotated[
    str | None,
    typer.Option(help="Name of the load; its lag is that of the group millstream-pipeline-NAME. [default: after the checkpoint]"),
]
Audit = Annotated[str | None, typer.Option(metavar="TIER", help="Report what was loaded to the audit, as this tier.")]
DeadLetters = Annotated[
    str | None, typer.Option(metavar="TOPIC", help="Where messages go that cannot be read. [default: TOPIC-dead-letters]")
]
FailOnMalformed = Annotated[bool | None, typer.Option("--fail-on-malformed", help="End at a message that cannot be read.")]
AllowDataLoss = Annotated[bool | None, typer.Option("--allow-data-loss", help="Go on where messages were deleted before they were loaded.")]
Catalog = Annotated[list[str] | None, typer.Option(metavar="NAME=VALUE", help="Property of the Iceberg catalog. [default: SQLite in PATH]")]
