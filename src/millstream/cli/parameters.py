"""Flags that several commands share, so that one letter means one thing everywhere.

`-b` brokers, `-o` an offset, `--output` the format, `-X` an option by its own name, `-p` a partition.
"""

from enum import StrEnum
from typing import Annotated

import typer


class Output(StrEnum):
    """How a command writes what it found."""

    TABLE = "table"
    JSON = "json"


Brokers = Annotated[
    str,
    typer.Option(
        "-b", "--brokers", metavar="HOST:PORT[,...]", envvar="MILLSTREAM_BROKERS", help="Brokers to ask first, Millstream or Kafka."
    ),
]
ClientOptions = Annotated[
    list[str] | None,
    typer.Option("-X", metavar="NAME=VALUE", help="Set an option of the client (librdkafka's names, e.g. security.protocol); repeatable."),
]
OutputFormat = Annotated[Output, typer.Option("--output", help="Format of what is written to stdout.")]
GroupName = Annotated[str, typer.Argument(metavar="GROUP", help="Name of the group.", show_default=False)]
GroupNames = Annotated[list[str], typer.Argument(metavar="GROUP", help="Names of the groups.", show_default=False)]
Execute = Annotated[bool, typer.Option("--execute", help="Do it; without this flag only show what would be done.")]
TopicName = Annotated[str, typer.Argument(metavar="TOPIC", help="Name of the topic.", show_default=False)]

DEFAULT_BROKERS = "127.0.0.1:9092"
