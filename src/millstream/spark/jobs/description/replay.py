"""A replay: the same job once more over messages that are still there, from an offset or a time, with results of its own.

The live job goes on meanwhile: the replay has another name (and so another consumer group), another checkpoint and another output, and one
that would share any of them is refused.

A replay from a time has not seen what came before it, so windows that begin earlier are left out: those that are given are whole, if the
time of events is that of the messages. Sessions may have begun before: the first ones are left out for the length of a gap.
"""

import os
import re
from collections.abc import Mapping
from dataclasses import replace
from pathlib import PurePosixPath

from millstream.errors import UsageError
from millstream.spark.jobs.description.job_settings import Job
from millstream.spark.jobs.description.join_job import JoinJob
from millstream.spark.jobs.description.windows_job import WindowsJob
from millstream.spark.jobs.running.progress import local_directory


def replayed(
    job: WindowsJob | JoinJob,
    starts: Mapping[str, str],
    *,
    topic: str = "",
    table: str = "",
    checkpoint: str | None = None,
    from_ms: int | None = None,
) -> WindowsJob | JoinJob:
    """The job as a replay that begins at `starts`, by section, and writes elsewhere; `from_ms` is the time if it begins at one."""
    if not topic and not table:
        raise UsageError("a replay needs a place for its results: --to-topic TOPIC, --to-table PATH, or both")
    name = topic or re.sub(r"[^A-Za-z0-9._-]+", "-", PurePosixPath(table).name)
    place = checkpoint or f"{job.checkpoint.rstrip('/')}-replay-{name}"
    _refuse_shared(job, topic, table, place)
    again = job.begun_at(starts)
    again = replace(again, name=f"{job.name}-replay-{name}"[:100], output=replace(job.output, topic=topic, table=table), checkpoint=place)
    if from_ms is None or isinstance(again, JoinJob):
        return again
    wait_ms = again.window.length_ms if again.window.kind == "session" else 0
    return replace(again, complete_from_ms=from_ms + wait_ms)


def _refuse_shared(job: Job, topic: str, table: str, checkpoint: str) -> None:
    if topic and topic == job.output.topic:
        raise UsageError(f"{topic} is where the live job writes its results: give the replay a topic of its own")
    if table and _same_place(table, job.output.table):
        raise UsageError(f"{table} is where the live job writes its results: give the replay a table of its own")
    if _same_place(checkpoint, job.checkpoint):
        raise UsageError(f"{checkpoint} is the checkpoint of the live job: give the replay one of its own")


def _same_place(one: str, other: str) -> bool:
    return bool(other) and _plain(one) == _plain(other)


def _plain(address: str) -> str:
    """An address as one text, however it is written: relative, absolute, with `file:` before it or a slash after it."""
    directory = local_directory(address)
    return address.rstrip("/") if directory is None else os.path.realpath(directory)
