"""`millstream pipeline replay`: a windows or join job once more, from an offset or a time, beside the live one."""

from typing import TYPE_CHECKING, Annotated

import typer

from millstream.cli.pipeline import job_run
from millstream.cli.pipeline.job_run import Final, JobFile, Master, Once, Quiet
from millstream.cli.position import HELP, Position, PositionKind, parse_position

if TYPE_CHECKING:
    from millstream.spark.jobs.description.job_settings import Job


def replay(
    file: JobFile,
    *,
    topic: Annotated[str, typer.Option("--to-topic", metavar="TOPIC", help="A topic for the results; not the live job's.")] = "",
    table: Annotated[str, typer.Option("--to-table", metavar="PATH", help="A Delta table for the results; not the live job's.")] = "",
    start: Annotated[str, typer.Option("--from", metavar="POSITION", help=f"Where to begin: {HELP}")] = "earliest",
    checkpoint: Annotated[
        str | None, typer.Option(metavar="DIR", help="Directory for its checkpoint.", show_default="beside the live job's")
    ] = None,
    once: Once = False,
    final: Final = False,
    master: Master = None,
    quiet: Quiet = False,
) -> None:
    """Compute a job again from an offset or a time, with results of their own, while the live one runs.

    Without --once or --final it goes on with what comes, and can take the live job's place.
    """
    from millstream.spark.jobs.description.job_file import read_job
    from millstream.spark.jobs.description.replay import replayed

    job = read_job(file)
    position = parse_position(start, "--from")
    again = replayed(
        job,
        _starts(job, position),
        topic=topic,
        table=table,
        checkpoint=checkpoint,
        from_ms=position.number if position.kind is PositionKind.TIME else None,
    )
    job_run.run(again, once=once, final=final, master=master, quiet=quiet, beginning=start)


def _starts(job: "Job", position: Position) -> dict[str, str]:
    """Where each input begins, as a job file would say it."""
    edges = {PositionKind.EARLIEST: "earliest", PositionKind.LATEST: "latest", PositionKind.TIME: f"@{position.number}"}
    if position.kind in edges:
        return dict.fromkeys(job.inputs, edges[position.kind])
    from millstream.spark.jobs.description.job_topics import JobTopics

    with JobTopics(job) as topics:
        return topics.starts_at(position.number if position.kind is PositionKind.OFFSET else -position.number)
