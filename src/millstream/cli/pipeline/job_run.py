"""What the commands for windows, joins and replays share: everything is checked and asked first, then Spark is started."""

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from millstream.cli.pipeline.extras import need_extra

if TYPE_CHECKING:
    from millstream.spark.jobs.join_job import JoinJob
    from millstream.spark.jobs.windows_job import WindowsJob

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
    """Check the job against its cluster and its checkpoint, then run it; exits with the code of the run.

    `beginning` is where a replay begins, which decides what its checkpoint is about.
    """
    need_extra("spark", "pyspark", "pyarrow")
    if _uses_delta(job):
        need_extra("lake", "deltalake")
    from millstream.spark.jobs.checkpoint_job import check_checkpoint
    from millstream.spark.jobs.job_topics import JobTopics
    from millstream.spark.jobs.join import start_join
    from millstream.spark.jobs.join_job import JoinJob
    from millstream.spark.jobs.runner import run_job
    from millstream.spark.jobs.windows import start_windows

    with JobTopics(job) as topics:
        for warning in topics.prepare():
            print(f"millstream: warning: {warning}", file=sys.stderr)
    check_checkpoint(job.checkpoint, job.identity() | ({"replay from": beginning} if beginning else {}))
    code = run_job(
        lambda session: (
            start_join(session, job, once=once, is_final=final)
            if isinstance(job, JoinJob)
            else start_windows(session, job, once=once, is_final=final)
        ),
        name=job.name,
        master=master,
        checkpoint=job.checkpoint,
        once=once or final,
        quiet=quiet,
        brokers=job.brokers,
        group=job.group,
    )
    raise typer.Exit(code)


def _uses_delta(job: "WindowsJob | JoinJob") -> bool:
    table = getattr(job, "table", None)
    return bool(job.output.table) or (table is not None and table.format == "delta")
