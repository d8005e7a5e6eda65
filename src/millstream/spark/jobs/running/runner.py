"""Runs a streaming job until it is done, stopped or broken, and shows meanwhile how it goes.

    run_job(lambda session: start_load(session, settings), name="load", master=None, checkpoint="/data/load", once=True, quiet=False)

A job with `once` ends when what was there is processed (its query has the trigger AvailableNow); one without runs until SIGINT or SIGTERM,
which stop it in order: the micro-batch under way is given up, and done again by the next run. The exit code is 0 when a job is done or was
stopped, 130 when one with `once` was stopped before its end; a job that fails raises `CommandFailed`, in one sentence.

Progress is asked of Spark, not pushed by it, twice a second: a listener would need a server for callbacks, and could not print in order.
"""

import json
import signal
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from time import time
from typing import TYPE_CHECKING, Final

from millstream.errors import CommandFailed
from millstream.spark.jobs.running.batch_progress import BatchCounts, BatchProgress, LagHistory, read_progress
from millstream.spark.jobs.running.checkpoint_lock import locked_checkpoint
from millstream.spark.jobs.running.failure import sentence_of, why_not_started
from millstream.spark.jobs.running.job_session import start_job_session
from millstream.spark.jobs.running.progress import JobProgress, State, write_progress
from millstream.spark.jobs.running.spark_log import last_words, log_path
from millstream.spark.jobs.streams.late_messages import late_messages
from millstream.spark.session import check_java

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

_POLL_S: Final = 0.5
_INTERRUPTED: Final = 130

Start = Callable[["SparkSession"], "StreamingQuery"]


def run_job(
    start: Start,
    *,
    name: str,
    master: str | None,
    checkpoint: str,
    once: bool,
    quiet: bool,
    brokers: str | None = None,
    group: str | None = None,
    counts: BatchCounts | None = None,
) -> int:
    """Start a session and in it the query, and run it to its end; the exit code. `brokers` and `group` are for `pipeline status`."""
    now_ms = int(time() * 1000)
    run = _Run(JobProgress(name, now_ms, now_ms, brokers=brokers, group=group), checkpoint, once=once, quiet=quiet, counts=counts)
    with _stopped_by_signals(run), locked_checkpoint(checkpoint):
        return run.to_its_end(start, _session(name, master, log_path(name, checkpoint)))


@contextmanager
def _session(name: str, master: str | None, log: Path) -> "Iterator[SparkSession]":
    """A session that is stopped in the end, unless it was running before."""
    check_java()
    from py4j.protocol import Py4JError
    from pyspark.errors import PySparkException
    from pyspark.sql import SparkSession  # takes a second

    was_running = SparkSession.getActiveSession() is not None
    try:
        session = start_job_session(name, master=master, log=None if was_running else log)
    except (PySparkException, Py4JError) as error:
        # A JVM that did not come up has said why to its stderr alone.
        reason = sentence_of(str(error)) if isinstance(error, Py4JError) else why_not_started(last_words(log))
        raise CommandFailed(f"Spark did not start: {reason} Its log is {log}.") from None
    try:
        yield session
    finally:
        if not was_running:
            session.stop()


class _Run:
    """One run of a job."""

    def __init__(self, progress: JobProgress, checkpoint: str, *, once: bool, quiet: bool, counts: BatchCounts | None) -> None:
        self.is_to_stop = False
        self._progress = progress
        self._checkpoint = checkpoint
        self._once = once
        self._quiet = quiet
        self._counts = counts or BatchCounts()
        self._history = LagHistory()
        self._last_batch = -1

    def to_its_end(self, start: Start, opened: "AbstractContextManager[SparkSession]") -> int:
        from pyspark.errors import PySparkException

        self._keep()
        try:
            with opened as session:
                query = start(session)
                self._say(f"{self._progress.name}: running" + (" until what is there is processed" if self._once else "; Ctrl-C stops it"))
                self._follow(query)
        except PySparkException as error:
            self._fail(sentence_of(str(error)), error)
        except Exception as error:
            self._end("failed", str(error))
            raise
        is_cut_short = self.is_to_stop and self._once
        self._end("stopped" if self.is_to_stop else "done")
        return _INTERRUPTED if is_cut_short else 0

    def _follow(self, query: "StreamingQuery") -> None:
        try:
            # Its type says int, and it takes fractions.
            while not query.awaitTermination(_POLL_S) and not self.is_to_stop:  # type: ignore[arg-type]
                self._show_new(query)
        finally:
            self._show_new(query)
            # Also where something else went wrong: nothing of it goes on in a session that stays.
            query.stop()

    def _show_new(self, query: "StreamingQuery") -> None:
        for reported in query.recentProgress:
            document = json.loads(reported.json)
            batch_id, is_idle = int(document["batchId"]), "addBatch" not in document.get("durationMs", {})
            if is_idle or batch_id <= self._last_batch:
                continue
            self._last_batch = batch_id
            late = late_messages(document, self._checkpoint)
            batch = read_progress(document, self._history, self._counts.take(batch_id), late=late)
            self._progress = self._progress.after(batch)
            self._keep()
            self._say(batch_line(batch))

    def _keep(self) -> None:
        """Write the progress down; a disk that is full is the job's trouble, not that of who looks at it."""
        try:
            write_progress(self._checkpoint, self._progress)
        except OSError as error:
            self._say(f"{self._progress.name}: the progress cannot be written beside the checkpoint: {error.strerror}")

    def _fail(self, sentence: str, cause: Exception) -> None:
        self._end("failed", sentence)
        raise CommandFailed(f"{self._progress.name} failed: {sentence}") from cause

    def _end(self, state: State, error: str | None = None) -> None:
        self._progress = self._progress.ended(state, int(time() * 1000), error)
        self._keep()
        self._say(end_line(self._progress))

    def _say(self, line: str) -> None:
        if not self._quiet:
            sys.stderr.write(f"{line}\n")
            sys.stderr.flush()


def batch_line(batch: BatchProgress) -> str:
    """A micro-batch on the terminal."""
    parts = [f"batch {batch.batch_id}: {batch.rows:,} rows in {batch.duration_ms / 1000:.1f} s ({batch.rows_per_second:,.0f} rows/s)"]
    if batch.lag_messages is not None:
        parts.append(f"lag {batch.lag_messages:,} messages" + (f", {batch.lag_seconds:.1f} s" if batch.lag_seconds else ""))
    parts += left_out(malformed=batch.malformed, late=batch.late, untimed=batch.untimed)
    return "; ".join(parts)


def end_line(progress: JobProgress) -> str:
    """The end of a run on the terminal."""
    parts = [f"{progress.name}: {progress.state} after {progress.batches:,} batches, {progress.rows:,} rows"]
    return ", ".join(parts + left_out(malformed=progress.malformed, late=progress.late, untimed=progress.untimed))


def left_out(*, malformed: int, late: int, untimed: int) -> list[str]:
    """What did not become part of the results, as far as there is any."""
    counts = {"malformed": malformed, "late": late, "without a time": untimed}
    return [f"{count:,} {name}" for name, count in counts.items() if count]


@contextmanager
def _stopped_by_signals(run: _Run) -> Iterator[None]:
    """SIGINT and SIGTERM end the run; in a thread, which gets no signals, nothing does."""
    numbers: Sequence[signal.Signals] = (signal.SIGINT, signal.SIGTERM)

    def stop(*_: object) -> None:
        run.is_to_stop = True

    try:
        former = {number: signal.signal(number, stop) for number in numbers}
    except ValueError:
        former = {}
    try:
        yield
    finally:
        for number, handler in former.items():
            signal.signal(number, handler)
