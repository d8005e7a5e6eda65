"""How cost grows with the log: read from its beginning, at its tail and at random places, in logs of 100 MB and 2 GB.

The logs are filled with batches of 200 messages (41 kB). Fetches are single raw requests for one batch, one after the other:
what differs between the two sizes is finding the place.
"""

from collections.abc import Sequence
from random import Random
from time import perf_counter_ns

from bench.case import BenchError, Case, Context, Metric, Values
from bench.consume import consume
from bench.load import fill
from bench.measure import Stopwatch, median
from bench.topics import create_topic

FETCH_BYTES = 50_000


class LogSize(Case):
    """One size of log."""

    def __init__(self, megabytes: int, *, read_count: int, fetches: int) -> None:
        self.megabytes = megabytes
        self.read_count = read_count
        self.fetches = fetches
        self.name = f"log-{megabytes}MB"
        self.title = f"a log of {megabytes} MB"
        self.metrics = (
            Metric("read from start", "msg/s", summary="max"),
            Metric("read from start, broker CPU", "s per M"),
            Metric("fetch at tail", "us"),
            Metric("fetch at random", "us"),
            Metric("fetch, broker CPU", "us"),
        )

    def prepare(self, context: Context) -> None:
        create_topic(context.broker, self.name)
        count = fill(context.broker, self.name, size_bytes=self.megabytes * 1_000_000)
        with context.broker.connect() as connection:
            if (end := connection.end_offset(self.name, 0)) != count:
                raise BenchError(f"{count} messages were acknowledged, but the log ends at {end}")
        self.run(context)

    def run(self, context: Context) -> Values:
        broker = context.broker
        with broker.connect() as connection:
            end = connection.end_offset(self.name, 0)
        count = min(self.read_count, end)
        reading = consume(broker, self.name, start=0, count=count)
        # The same places for every peer in the same round.
        random = Random(context.round_number)
        tail = [end - 1 - random.randrange(200) for _ in range(self.fetches)]
        anywhere = [random.randrange(end) for _ in range(self.fetches)]
        with Stopwatch(broker.pid) as fetching:
            tail_us = self._fetch(context, tail)
            random_us = self._fetch(context, anywhere)
        return {
            "read from start": reading.rate(count),
            "read from start, broker CPU": reading.cpu_per_million(count),
            "fetch at tail": tail_us,
            "fetch at random": random_us,
            "fetch, broker CPU": fetching.cpu_per_million(2 * self.fetches),
        }

    def _fetch(self, context: Context, offsets: Sequence[int]) -> float:
        durations: list[float] = []
        with context.broker.connect() as connection:
            for offset in offsets:
                before = perf_counter_ns()
                if connection.fetch_size(self.name, 0, offset=offset, max_bytes=FETCH_BYTES) <= 0:
                    raise BenchError(f"a fetch at offset {offset} came back empty")
                durations.append((perf_counter_ns() - before) / 1000)
        return median(durations)
