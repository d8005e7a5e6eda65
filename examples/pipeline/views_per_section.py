"""A windows job whose events a function changes first: page views per section of the site, without those of robots.

python examples/pipeline/views_per_section.py 127.0.0.1:9092 checkpoints/views-per-section

or with `spark-submit`, on any cluster. The settings are those of a job file, the function gets and returns a DataFrame of Spark.
"""

import sys

from pyspark.sql import DataFrame
from pyspark.sql import functions as f

from millstream.spark.jobs.job_settings import JobOutput
from millstream.spark.jobs.job_topics import JobTopics
from millstream.spark.jobs.runner import run_job
from millstream.spark.jobs.topic_input import TopicInput
from millstream.spark.jobs.windows import start_windows
from millstream.spark.jobs.windows_job import Window, WindowsJob


def by_section(events: DataFrame) -> DataFrame:
    """Only people, and the first part of the page's path as its section."""
    people = events.where(~f.lower("agent").contains("bot"))
    return people.withColumn("section", f.regexp_extract("page", r"^/([^/]*)", 1))


def main(brokers: str, checkpoint: str) -> int:
    """Run the job until it is stopped."""
    job = WindowsJob(
        name="views-per-section",
        brokers=brokers,
        checkpoint=checkpoint,
        input=TopicInput("page-views", schema="page STRING, agent STRING", added=("section",), watermark="1 minute"),
        window=Window("sliding", size="10 minutes", slide="1 minute", by=("section",)),
        measures={"views": "count"},
        output=JobOutput("views-per-section"),
    )
    with JobTopics(job) as topics:
        topics.prepare()
    return run_job(
        lambda session: start_windows(session, job, transform=by_section),
        name=job.name,
        master=None,
        checkpoint=checkpoint,
        once=False,
        quiet=False,
        brokers=brokers,
        group=job.group,
    )


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
