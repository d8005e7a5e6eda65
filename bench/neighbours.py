"""What one client feels of another's worst legal request: the slowest answer to a small request while the other one is under way.

Three neighbours, each a single request at a time on a connection of its own: offsets by time in a log of small batches that all have
one time, a batch of very many records for a compacted topic, and a new topic where there are many. The requests are built before the
clock starts and both clients only send and wait, so that what is measured is the broker. `quiet` is the machine itself.
"""

import zlib
from collections.abc import Callable
from threading import Event, Thread
from time import perf_counter_ns, sleep
from typing import Final

from bench.case import Bar, BenchError, Case, Context, Metric, Values
from bench.load import pump
from bench.peers.broker import Broker
from bench.raw import keyed_batch, produce_error, produce_request, record_batch
from bench.topics import create_topic

TIMESTAMP_MS: Final = 1_700_000_000_000
PAUSE_SECONDS: Final = 0.001
AIM_MS: Final = 20.0
GZIP: Final = 31
"""zlib's way of saying: with the header of gzip."""


class Neighbours(Case):
    """Small requests beside large ones."""

    name = "neighbours"
    title = "slowest answer to another client"
    metrics = (
        Metric("quiet", "ms"),
        Metric("beside offsets by time", "ms", Bar(AIM_MS, "at most", "value")),
        Metric("beside a batch of many records", "ms", Bar(AIM_MS, "at most", "value")),
        Metric("beside new topics", "ms", Bar(AIM_MS, "at most", "value")),
    )

    def __init__(self, *, small_batches: int, records: int, topics: int) -> None:
        self.small_batches = small_batches
        self.records = records
        self.topics = topics
        self._large = b""

    def prepare(self, context: Context) -> None:
        broker = context.broker
        create_topic(broker, "neighbours-small")
        create_topic(broker, "neighbours-times")
        create_topic(broker, "neighbours-keys", config={"cleanup.policy": "compact", "max.message.bytes": str(64 * 1024 * 1024)})
        batch = record_batch(1, value=b"click", timestamp_ms=TIMESTAMP_MS)
        pump(broker, [produce_request("neighbours-times", 0, batch=batch)], requests=self.small_batches)
        self._large = self._large or keyed_batch(self.records, timestamp_ms=TIMESTAMP_MS, compress=_gzip)
        for number in range(self.topics):
            create_topic(broker, f"neighbours-many-{number}")

    def run(self, context: Context) -> Values:
        broker = context.broker
        large = produce_request("neighbours-keys", 0, batch=self._large)

        def offsets_by_time() -> None:
            with broker.connect() as connection:
                for _ in range(10):
                    connection.offset_at("neighbours-times", 0, timestamp_ms=TIMESTAMP_MS)

        def many_records() -> None:
            with broker.connect() as connection:
                if error := produce_error(connection.call(large)):
                    raise BenchError(f"Produce of many records answered error {error}")

        def new_topics() -> None:
            for number in range(10):
                create_topic(broker, f"neighbours-new-{context.round_number}-{number}")

        return {
            "quiet": _slowest_beside(broker, lambda: sleep(1.0)),
            "beside offsets by time": _slowest_beside(broker, offsets_by_time),
            "beside a batch of many records": _slowest_beside(broker, many_records),
            "beside new topics": _slowest_beside(broker, new_topics),
        }


def _slowest_beside(broker: Broker, work: Callable[[], None]) -> float:
    """Milliseconds of the slowest of the small requests that another client sends all the while."""
    durations: list[float] = []
    is_over = Event()
    asking = Thread(target=_ask, args=(broker, is_over, durations))
    asking.start()
    try:
        work()
    finally:
        is_over.set()
        asking.join()
    if not durations:
        raise BenchError("the other client got no answer at all")
    return max(durations)


def _ask(broker: Broker, is_over: Event, durations: list[float]) -> None:
    with broker.connect() as connection:
        while not is_over.is_set():
            before = perf_counter_ns()
            connection.end_offset("neighbours-small", 0)
            durations.append((perf_counter_ns() - before) / 1e6)
            sleep(PAUSE_SECONDS)


def _gzip(payload: bytes) -> bytes:
    compressor = zlib.compressobj(6, zlib.DEFLATED, GZIP)
    return compressor.compress(payload) + compressor.flush()
