"""A load, windows and a join for `spark-submit`: the load until what is there is processed, then the other two beside each other until
there is a file DIRECTORY/stop, then each of them once more, to the end of its windows.

    spark-submit ... cluster_jobs.py BOOTSTRAP VIEWS CLICKS DIRECTORY

Prints who did the work.
"""

import json
import os
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from time import monotonic, sleep
from typing import TYPE_CHECKING

from pyspark.errors import StreamingQueryException

from millstream.spark.jobs.description.job_settings import JobOutput
from millstream.spark.jobs.description.join_job import JoinJob, JoinRule
from millstream.spark.jobs.description.topic_input import TopicInput
from millstream.spark.jobs.description.windows_job import Window, WindowsJob
from millstream.spark.jobs.load.load import start_load
from millstream.spark.jobs.load.settings import LoadSettings
from millstream.spark.jobs.running.job_session import start_job_session
from millstream.spark.jobs.streams.join import start_join
from millstream.spark.jobs.streams.windows import start_windows

if TYPE_CHECKING:
    from pyspark.sql.streaming.query import StreamingQuery

Start = Callable[[], "StreamingQuery"]

DEADLINE_S = 1200
VIEW_SCHEMA = "page STRING, user STRING, bytes BIGINT, price DOUBLE, at BIGINT"
CLICK_SCHEMA = "user STRING, page STRING, button STRING, at BIGINT"


def make_windows(brokers: str, views: str, directory: Path) -> WindowsJob:
    """Views per page and ten minutes, to a topic and a table."""
    return WindowsJob(
        name="windows", brokers=brokers, checkpoint=str(directory / "windows"),
        input=TopicInput(views, schema=VIEW_SCHEMA, time="at", watermark="1 minute", deduplicate=True),
        window=Window(size="10 minutes", by=("page",)), measures={"views": "count", "bytes": "sum(bytes)"},
        output=JobOutput(f"{views}-windows", table=str(directory / "results")),
    )  # fmt: skip


def make_join(brokers: str, views: str, clicks: str, directory: Path) -> JoinJob:
    """Views with the clicks on them, and those without."""
    return JoinJob(
        name="join", brokers=brokers, checkpoint=str(directory / "join"),
        left=TopicInput(views, schema=VIEW_SCHEMA, time="at", watermark="1 minute"),
        right=TopicInput(clicks, schema=CLICK_SCHEMA, time="at", watermark="1 minute"),
        join=JoinRule(("user", "page"), type="left", within="5 minutes"), output=JobOutput(f"{views}-join"),
    )  # fmt: skip


def make_load(brokers: str, views: str, directory: Path) -> LoadSettings:
    """Views into a lake, in several micro-batches."""
    return LoadSettings(
        brokers=brokers, topics=(views,), to=str(directory / "lake"), checkpoint=str(directory / "load"), value_format="json",
        value_schema=VIEW_SCHEMA, once=True, batch_messages=75,
    )  # fmt: skip


def to_its_end(start: Start) -> None:
    """Run a query. Spark gives the process that plans a stream ten seconds to start, which cannot be set: too few where much else runs. It
    is safe to start it again."""
    end = monotonic() + DEADLINE_S
    while True:
        query = start()
        try:
            assert query.awaitTermination(DEADLINE_S), "a job did not end"
        except StreamingQueryException as failure:
            if not did_not_start(failure) or monotonic() > end:
                raise
        else:
            return


def until_stopped(starts: Sequence[Start], stop: Path) -> None:
    """Run queries beside each other until somebody makes the file."""
    running = [] if stop.exists() else [start() for start in starts]
    end = monotonic() + DEADLINE_S
    while not stop.exists():
        assert monotonic() < end, "nobody stopped the jobs"
        running = [kept_running(query, start) for query, start in zip(running, starts, strict=True)]
        sleep(0.2)
    for query in running:
        query.stop()


def kept_running(query: "StreamingQuery", start: Start) -> "StreamingQuery":
    """The query, or a new start of one that did not start."""
    failure = query.exception()
    if failure is None:
        return query
    if not did_not_start(failure):
        raise failure
    return start()


def did_not_start(failure: StreamingQueryException) -> bool:
    """Whether Spark gave up waiting for the process that plans a stream."""
    return "connect back" in str(failure)


def executor(_: int) -> int:
    """The JVM that this task runs in; slow enough that one of them does not take all tasks."""
    sleep(0.5)
    return os.getppid()


def main(brokers: str, views: str, clicks: str, place: str) -> None:
    """Run all of it."""
    session, directory = start_job_session("scale"), Path(place)
    to_its_end(lambda: start_load(session, make_load(brokers, views, directory)))
    windows, join = make_windows(brokers, views, directory), make_join(brokers, views, clicks, directory)
    until_stopped([lambda: start_windows(session, windows), lambda: start_join(session, join)], directory / "stop")
    to_its_end(lambda: start_windows(session, windows, is_final=True))
    to_its_end(lambda: start_join(session, join, is_final=True))
    parents = session.sparkContext.parallelize(range(4), 4).map(executor).collect()
    shuffles = session.conf.get("spark.sql.shuffle.partitions")
    print("OUTCOME " + json.dumps({"executors": len(set(parents)), "shuffle partitions": shuffles}))
    session.stop()


if __name__ == "__main__":
    main(*sys.argv[1:])
