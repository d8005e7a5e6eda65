"""A windows or join job from its settings to its end: everything is checked and asked first, then Spark is started.

run_to_its_end(job, once=True)
run_to_its_end(job, transform=only_people)        a function from DataFrame to DataFrame, which sees the events first
"""

import logging
from collections.abc import Callable

from millstream.spark.jobs.description.checkpoint_job import check_checkpoint
from millstream.spark.jobs.description.job_topics import JobTopics
from millstream.spark.jobs.description.join_job import JoinJob
from millstream.spark.jobs.description.windows_job import WindowsJob
from millstream.spark.jobs.running.progress import local_directory
from millstream.spark.jobs.running.runner import run_job
from millstream.spark.jobs.streams.events import Transform
from millstream.spark.jobs.streams.join import start_join
from millstream.spark.jobs.streams.windows import start_windows

logger = logging.getLogger(__name__)


def run_to_its_end(
    job: WindowsJob | JoinJob,
    *,
    once: bool = False,
    final: bool = False,
    master: str | None = None,
    quiet: bool = False,
    beginning: str = "",
    transform: Transform | None = None,
    warn: Callable[[str], None] = logger.warning,
) -> int:
    """Check the job against its cluster, its table and its checkpoint, then run it; the exit code.

    `once` ends it when what is there now is processed, `final` also closes the last windows. `beginning` is where a replay begins, which
    decides what its checkpoint is about.
    """
    check_job(job, beginning=beginning, warn=warn)
    return run_job(
        lambda session: (
            start_join(session, job, once=once, is_final=final, transform=transform)
            if isinstance(job, JoinJob)
            else start_windows(session, job, once=once, is_final=final, transform=transform)
        ),
        name=job.name,
        master=master,
        checkpoint=job.checkpoint,
        once=once or final,
        quiet=quiet,
        brokers=job.brokers,
        group=job.group,
    )


def check_job(job: WindowsJob | JoinJob, *, beginning: str = "", warn: Callable[[str], None] = logger.warning) -> None:
    """Raise if something is wrong that can be known without Spark; if not, the topics that are written are created."""
    if job.output.table:
        _check_table(job)
    with JobTopics(job) as topics:
        for warning in topics.check():
            warn(warning)
        identity = job.identity() | ({"replay from": beginning} if beginning else {})
        check_checkpoint(job.checkpoint, identity, topic_ids=topics.topic_ids())
        topics.create()


def _check_table(job: WindowsJob | JoinJob) -> None:
    """The table of results has to be one that they can go into, as far as their columns are known; `results` looks at the rest."""
    from millstream.lake.result_table import ResultTable

    table = ResultTable(job.output.table)
    if isinstance(job, WindowsJob):
        table.check_names(job.result_columns)
    directory = local_directory(job.checkpoint)
    if directory is not None and not (directory / "metadata").exists():
        table.refuse_rows()
