"""`millstream pipeline join`: two streams within a bound of time, or a stream with a table."""

from millstream.cli.pipeline import job_run
from millstream.cli.pipeline.job_run import Final, JobFile, Master, Once, Quiet


def join(file: JobFile, *, once: Once = False, final: Final = False, master: Master = None, quiet: Quiet = False) -> None:
    """Join a stream with another one within a bound of time, or with a table, as a TOML file says.

    Events of the left side without a match appear, with type = "left", when the watermark says that none can come. A job that was stopped
    or killed goes on where it was.
    """
    from millstream.spark.jobs.description.job_file import read_job_of
    from millstream.spark.jobs.description.join_job import JoinJob

    job_run.run(read_job_of(JoinJob, file), once=once, final=final, master=master, quiet=quiet)
