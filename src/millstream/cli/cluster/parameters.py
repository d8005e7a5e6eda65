"""Flags that the commands share that move partitions."""

from typing import Annotated

import typer

Yes = Annotated[bool, typer.Option("-y", "--yes", help="Do not ask.")]
DryRun = Annotated[bool, typer.Option("--dry-run", help="Only show the plan.")]
AsJson = Annotated[
    bool, typer.Option("--json", help="With --dry-run: write the plan in Kafka's JSON format, for --plan or kafka-reassign-partitions.")
]
Throttle = Annotated[
    str | None,
    typer.Option(
        "--throttle",
        metavar="RATE",
        help="Bytes a second that a broker may copy, e.g. 50MB; removed when all is done.",
        show_default="none",
    ),
]
NoWait = Annotated[bool, typer.Option("--no-wait", help="Begin, and do not wait for the end.")]
