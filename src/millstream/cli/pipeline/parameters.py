"""Flags that the commands of `millstream pipeline` share."""

from typing import Annotated

import typer

Master = Annotated[
    str | None, typer.Option("--master", metavar="URL", help="Spark's master, as in spark://host:7077. [default: all cores here]")
]
Quiet = Annotated[bool, typer.Option("--quiet", help="Show no progress.")]
