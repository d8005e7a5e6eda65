"""Restart after kill -9 and after a clean stop, with a log of a given size that was never flushed by the broker.

Ready means that the partition's end offset is answered and is what was acknowledged before: a killed process loses nothing that
is in the page cache.
"""

from pathlib import Path
from time import monotonic, sleep

from bench.case import BenchError, Case, Context, Metric, Values
from bench.load import fill
from bench.peers.broker import Broker
from bench.topics import create_topic

READY_TIMEOUT_SECONDS = 120.0
TOPIC = "restart"


class Restart(Case):
    """One size of log, with a number of empty partitions beside it."""

    isolated = True

    def __init__(self, megabytes: int, *, partitions: int, max_rounds: int) -> None:
        self.megabytes = megabytes
        self.partitions = partitions
        self.max_rounds = max_rounds
        self.name = f"restart-{megabytes}MB"
        self.title = f"restart with {megabytes} MB, {partitions} partitions"
        self.metrics = (Metric("after kill -9", "s"), Metric("clean stop", "s"), Metric("after a clean stop", "s"))

    def run(self, context: Context) -> Values:
        directory = context.directory / f"round-{context.round_number}"
        broker = context.peer.start(directory)
        try:
            create_topic(broker, TOPIC, partitions=self.partitions)
            count = fill(broker, TOPIC, size_bytes=self.megabytes * 1_000_000)
            broker.kill()
            broker, unclean = self._start(context, directory, count=count)
            stopped_in = broker.stop()
            broker, clean = self._start(context, directory, count=count)
        finally:
            broker.kill()
        return {"after kill -9": unclean, "clean stop": stopped_in, "after a clean stop": clean}

    def _start(self, context: Context, directory: Path, *, count: int) -> tuple[Broker, float]:
        started_at = monotonic()
        broker = context.peer.start(directory)
        try:
            while (end := _end_offset(broker)) is None:
                if monotonic() > started_at + READY_TIMEOUT_SECONDS:
                    raise BenchError(f"the log was not readable {READY_TIMEOUT_SECONDS:g} s after the restart")
                sleep(0.005)
            if end != count:
                raise BenchError(f"{count} messages were acknowledged before the stop, but the log now ends at {end}")
        except BaseException:
            broker.kill()
            raise
        return broker, monotonic() - started_at


def _end_offset(broker: Broker) -> int | None:
    try:
        with broker.connect() as connection:
            return connection.end_offset(TOPIC, 0)
    except (BenchError, OSError):
        return None
