"""What the commands for windows, joins and replays share."""

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from millstream.cli.pipeline.extras import need_extra

if TYPE_CHECKING:
    from millstream.spark.jobs.description.join_job import JoinJob
    from millstream.spark.jobs.description.windows_job import WindowsJob

JobFile = Annotated[
    Path, typer.Argument(metavar="FILE.toml", help="The job: topics, formats, windows or join, output.", show_default=False)
]
Once = Annotated[bool, typer.Option("--once", help="Process what is there now, and end. The last windows stay open for the next run.")]
Final = Annotated[
    bool, typer.Option("--final", help="Process what is there now, close all windows, too, and end: what comes later for them is late.")
]
Master = Annotated[str | None, typer.Option(metavar="URL", help="Spark's master.", show_default="this machine, all cores")]
Quiet = Annotated[bool, typer.Option("--quiet", help="Do not show progress on stderr.")]


def run(job: "WindowsJob | JoinJob", *, once: bool, final: bool, master: str | None, quiet: bool, beginning: str = "") -> None:
    """Run a job; exits with the code of the run. `beginning` is where a replay begins."""
    need_extra("spark", "pyspark", "pyarrow")
    if _uses_delta(job):
        need_extra("lake", "deltalake")
    from millstream.spark.jobs.streams.job_run import run_to_its_end

    raise typer.Exit(run_to_its_end(job, once=once, final=final, master=master, quiet=quiet, beginning=beginning, warn=_warn))


def _warn(warning: str) -> None:
    print(f"millstream: warning: {warning}", file=sys.stderr)


def _uses_delta(job: "WindowsJob | JoinJob") -> bool:
    table = getattr(job, "table", None)
    return bool(job.output.table) or (table is not None and table.format == "delta")
