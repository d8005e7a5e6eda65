"""A windows job whose events a function changes first: page views per section of the site, without those of robots.

python examples/pipeline/views_per_section.py 127.0.0.1:9092 checkpoints/views-per-section [--final]

or with `spark-submit`, on any cluster. The settings are those of a job file, the function gets and returns a DataFrame of Spark. It runs
until it is stopped; with --final it processes what is there, closes all windows and ends.
"""

import sys

from pyspark.sql import DataFrame
from pyspark.sql import functions as f

from millstream.spark.jobs.description.job_settings import JobOutput
from millstream.spark.jobs.description.topic_input import TopicInput
from millstream.spark.jobs.description.windows_job import Window, WindowsJob
from millstream.spark.jobs.streams.job_run import run_to_its_end


def by_section(events: DataFrame) -> DataFrame:
    """Only people, and the first part of the page's path as its section."""
    people = events.where(~f.lower("agent").contains("bot"))
    return people.withColumn("section", f.regexp_extract("page", r"^/([^/]*)", 1))


def main(brokers: str, checkpoint: str, *flags: str) -> int:
    """Run the job."""
    job = WindowsJob(
        name="views-per-section",
        brokers=brokers,
        checkpoint=checkpoint,
        input=TopicInput("page-views", schema="page STRING, agent STRING", added=("section",), watermark="1 minute"),
        window=Window("sliding", size="10 minutes", slide="1 minute", by=("section",)),
        measures={"views": "count"},
        output=JobOutput("views-per-section"),
    )
    return run_to_its_end(job, final="--final" in flags, transform=by_section)


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
