"""`millstream pipeline windows`: counts, sums, distinct and most frequent values over windows of event time."""

from millstream.cli.pipeline import job_run
from millstream.cli.pipeline.job_run import Final, JobFile, Master, Once, Quiet


def windows(file: JobFile, *, once: Once = False, final: Final = False, master: Master = None, quiet: Quiet = False) -> None:
    """Measure a stream over windows of event time, as a TOML file says.

    Results appear on a topic when the watermark has passed their window. A job that was stopped or killed goes on where it was.
    """
    from millstream.spark.jobs.description.job_file import read_job_of
    from millstream.spark.jobs.description.windows_job import WindowsJob

    job_run.run(read_job_of(WindowsJob, file), once=once, final=final, master=master, quiet=quiet)
