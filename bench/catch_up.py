"""A follower that comes back and has missed much: how long until it is in sync again, and what producers feel of it meanwhile.

A steady 500 messages per second with acks=all go on all the while; they need only the two replicas that stayed.
"""

from threading import Event, Thread
from time import monotonic, sleep
from typing import Self

from confluent_kafka import KafkaError, Message

from bench.case import Bar, BenchError, Case, Context, Metric, Values
from bench.failover import PATIENCE_SECONDS
from bench.load import VALUE, fill
from bench.measure import Stopwatch, percentile
from bench.peers.cluster import Cluster
from bench.produce import Workload, make_producer
from bench.raw import ALL_IN_SYNC
from bench.topics import create_topic, drop_topic

RATE = 500
LINGER_MS = 5
"""librdkafka's own default: batches grow while a broker is slow, so what is seen is the wait and no endless queue."""
RECORDS_PER_BATCH = 4000
QUIET_SECONDS = 2.0


class CatchUp(Case):
    """One amount of missed data."""

    max_rounds = 2

    def __init__(self, megabytes: int) -> None:
        self.megabytes = megabytes
        self.name = f"catch-up-{megabytes}MB"
        self.title = f"follower back after {megabytes} MB, beside {RATE} msg/s, acks=all"
        self.metrics = (
            Metric("start to in sync", "s", Bar(1.0, "at most", "kafka")),
            Metric("first answer to in sync", "s", Bar(1.0, "at most", "kafka")),
            Metric("CPU of all brokers", "s"),
            Metric("acknowledged within before, p99", "ms"),
            Metric("acknowledged within meanwhile, p50", "ms"),
            Metric("acknowledged within meanwhile, p99", "ms", Bar(1.0, "at most", "kafka")),
            Metric("acknowledged within meanwhile, most", "ms"),
        )

    def run(self, context: Context) -> Values:
        cluster, topic = context.cluster, context.topic(self)
        create_topic(cluster, topic)
        leader = cluster.leader(topic, 0)
        follower = next(node_id for node_id in cluster.nodes if node_id not in {leader, cluster.controller()})
        cluster.stop_node(follower)
        fill(cluster, topic, size_bytes=self.megabytes * 1_000_000, records=RECORDS_PER_BATCH, acks=ALL_IN_SYNC)
        with Steady(cluster, topic) as steady:
            sleep(QUIET_SECONDS)
            before = steady.take()
            started_at = monotonic()
            with Stopwatch(*cluster.pids) as watch:
                broker = cluster.start_node(follower)
                cluster.await_settled(topic, seconds=PATIENCE_SECONDS * 5)
            in_sync_at = monotonic()
            meanwhile = steady.take()
        drop_topic(cluster, topic)
        return {
            "start to in sync": in_sync_at - started_at,
            "first answer to in sync": in_sync_at - started_at - broker.start_seconds,
            # The follower's own process did not exist when the clock began: all it used counts.
            "CPU of all brokers": watch.cpu + broker.cpu_seconds(),
            "acknowledged within before, p99": percentile(before, 99),
            "acknowledged within meanwhile, p50": percentile(meanwhile, 50),
            "acknowledged within meanwhile, p99": percentile(meanwhile, 99),
            "acknowledged within meanwhile, most": max(meanwhile),
        }


class Steady:
    """Produces at a steady rate from `with` until its end, and keeps how long each acknowledgement took."""

    def __init__(self, cluster: Cluster, topic: str) -> None:
        self._producer = make_producer(
            cluster, Workload(0, 10_000, "all", linger_ms=LINGER_MS), reports_all=True, on_delivery=self._on_delivery
        )
        self._topic = topic
        self._latencies_ms: list[float] = []
        self._failures: list[KafkaError] = []
        self._is_over = Event()
        self._thread = Thread(target=self._send)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *exception: object) -> None:
        self._is_over.set()
        self._thread.join()
        self._producer.flush(30)

    def take(self) -> list[float]:
        """What was measured since the last time, in milliseconds."""
        taken, self._latencies_ms = self._latencies_ms, []
        if self._failures or not taken:
            raise BenchError(f"{len(taken)} messages acknowledged, {len(self._failures)} failed: {self._failures[:1]}")
        return taken

    def _on_delivery(self, error: KafkaError | None, message: Message) -> None:
        if error is not None:
            self._failures.append(error)
        else:
            self._latencies_ms.append((message.latency() or 0.0) * 1000)

    def _send(self) -> None:
        started_at, sent = monotonic(), 0
        while not self._is_over.is_set():
            self._producer.produce(self._topic, VALUE, partition=0)
            sent += 1
            self._producer.poll(max(0.0, started_at + sent / RATE - monotonic()))
