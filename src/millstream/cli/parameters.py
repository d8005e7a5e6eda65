"""Flags that several commands share, so that one letter means one thing everywhere.

`-b` brokers, `-o` an offset, `--output` the format, `-X` an option by its own name, `-p` a partition.
"""

from enum import StrEnum
from typing import Annotated

import typer

from millstream.cli.completion import complete_group, complete_topic


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
GroupName = Annotated[str, typer.Argument(metavar="GROUP", help="Name of the group.", show_default=False, autocompletion=complete_group)]
GroupNames = Annotated[
    list[str], typer.Argument(metavar="GROUP", help="Names of the groups.", show_default=False, autocompletion=complete_group)
]
Execute = Annotated[bool, typer.Option("--execute", help="Do it; without this flag only show what would be done.")]
TopicName = Annotated[str, typer.Argument(metavar="TOPIC", help="Name of the topic.", show_default=False, autocompletion=complete_topic)]
TopicNames = Annotated[
    list[str], typer.Argument(metavar="TOPIC", help="Names of the topics.", show_default=False, autocompletion=complete_topic)
]
NewTopicNames = Annotated[list[str], typer.Argument(metavar="TOPIC", help="Names of the topics.", show_default=False)]
Watch = Annotated[bool, typer.Option("--watch", help="Draw it again and again, until Ctrl-C.")]
Every = Annotated[float, typer.Option("--every", metavar="SECONDS", min=0.1, help="With --watch: how often.")]

Registry = Annotated[
    str | None, typer.Option("--registry", metavar="URL[,...]", envvar="MILLSTREAM_REGISTRY", help="Schema registry: http://HOST:PORT.")
]

DEFAULT_BROKERS = "127.0.0.1:9092"
