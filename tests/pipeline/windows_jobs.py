"""A windows job over page views, for tests: as settings and as a file."""

from dataclasses import replace
from pathlib import Path

from millstream.spark.jobs.description.job_file import read_job_of
from millstream.spark.jobs.description.windows_job import Window, WindowsJob
from tests.brokers import Broker
from tests.pipeline.site_activity import VIEW_SCHEMA
from tests.topics import create_topic, fresh_name

TEN_MINUTES = Window(size="10 minutes", by=("page",))


MEASURES = """
views = "count"
bytes = "sum(bytes)"
price = "sum(price)"
users = "distinct(user, 0.01)"
top = "top(3, user)"
last = "max(at)"
"""


def windows_file(broker: Broker, topic: str, directory: Path, *, measures: str = MEASURES, table: str = "") -> Path:
    """A job file; its checkpoint is beside it. The output does not exist yet."""
    file = directory / "views.toml"
    file.write_text(f"""
name = "views"
brokers = "{broker.bootstrap_servers}"
checkpoint = "{directory}/checkpoint"
trigger = "100 ms"

[input]
topic = "{topic}"
schema = "{VIEW_SCHEMA}"
time = "at"
watermark = "1 minute"
deduplicate = true
malformed = "skip"

[window]
size = "10 minutes"
by = ["page"]

[measures]
{measures}

[output]
topic = "{fresh_name("results")}"
table = "{table}"
""")
    return file


def windows_job(broker: Broker, topic: str, directory: Path, window: Window = TEN_MINUTES) -> WindowsJob:
    """The job of such a file, with other windows if need be; its output exists."""
    job = replace(read_job_of(WindowsJob, windows_file(broker, topic, directory)), window=window)
    create_topic(broker, name=job.output.topic)
    return job
