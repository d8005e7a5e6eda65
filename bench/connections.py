"""How cost grows with connections: 1, 100 or 1 000 of them, first idle, then beside one busy one, then all busy.

Every connection has asked ApiVersions and Metadata, as a client does, so the broker holds what it holds for a client. Idle
connections should cost memory and nothing else.
"""

from collections.abc import Sequence
from contextlib import ExitStack
from time import sleep

from bench.case import BenchError, Case, Context, Metric, Values
from bench.load import build_frames, pump
from bench.measure import Stopwatch
from bench.raw import API_VERSIONS, RawConnection, produce_error, request
from bench.topics import create_topic

BATCH = 50


class Connections(Case):
    """One number of connections."""

    def __init__(self, connections: int, *, count: int, idle_seconds: float) -> None:
        self.connections = connections
        self.count = count
        self.idle_seconds = idle_seconds
        self.name = f"connections-{connections}"
        self.title = f"{connections} connections"
        self.metrics = (
            Metric("open", "ms each"),
            Metric("memory", "kB each"),
            Metric("idle CPU", "ms per s"),
            Metric("throughput beside", "msg/s", summary="max"),
            Metric("broker CPU beside", "s per M"),
            Metric("all busy", "requests/s", summary="max"),
            Metric("all busy, broker CPU", "us per request"),
        )

    def prepare(self, context: Context) -> None:
        """One round that does not count: otherwise a JVM that grows warm would hide how cost grows."""
        self.run(context)

    def run(self, context: Context) -> Values:
        broker, topic = context.broker, context.topic(self)
        create_topic(broker, topic)
        frames = build_frames(topic, partitions=1, records=BATCH)
        # Warm, so that the buffers of a first load are not counted as memory of the connections.
        pump(broker, frames, requests=max(1, self.count // BATCH // 4))
        with ExitStack() as stack:
            before = broker.resident_bytes()
            with Stopwatch(broker.pid) as opening:
                connections = [stack.enter_context(broker.connect()) for _ in range(self.connections)]
                for connection in connections:
                    connection.call(request(API_VERSIONS, 0, b""))
                    connection.broker_count()
            grown = broker.resident_bytes() - before
            with Stopwatch(broker.pid) as idle:
                sleep(self.idle_seconds)
            with Stopwatch(broker.pid) as beside:
                pump(broker, frames, requests=self.count // BATCH)
            requests = max(1, self.count // BATCH // self.connections)
            with Stopwatch(broker.pid) as busy:
                _use_all(connections, build_frames(topic, partitions=1, records=1)[0], times=requests)
        return {
            "open": opening.seconds * 1000 / self.connections,
            "memory": grown / 1000 / self.connections,
            "idle CPU": idle.cpu * 1000 / idle.seconds,
            "throughput beside": beside.rate(self.count),
            "broker CPU beside": beside.cpu_per_million(self.count),
            "all busy": busy.rate(requests * self.connections),
            "all busy, broker CPU": busy.cpu_per_million(requests * self.connections),
        }


def _use_all(connections: Sequence[RawConnection], frame: bytes, *, times: int) -> None:
    """Every connection sends, then every connection reads: as many requests wait at the broker as there are connections."""
    for _ in range(times):
        for connection in connections:
            connection.socket.sendall(frame)
        for connection in connections:
            if error := produce_error(connection.read_answer()):
                raise BenchError(f"Produce answered error {error}")
