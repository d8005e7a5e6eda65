"""How cost grows with partitions: the same number of messages, in batches of 50, spread over 1, 100 or 1 000 partitions of one
topic.

Twice: with prebuilt requests over one raw connection, which shows the broker, and with confluent-kafka, which shows what a user
sees (librdkafka's own cost grows with its partitions). With confluent-kafka 50 messages in a row go to each partition, so that
the batches stay full.
"""

from confluent_kafka import Producer

from bench.case import Bar, BenchError, Case, Context, Metric, Values
from bench.load import VALUE, build_frames, pump
from bench.measure import Stopwatch
from bench.produce import FLUSH_TIMEOUT_SECONDS, Workload, make_producer
from bench.topics import create_topic

BATCH = 50


class Partitions(Case):
    """One number of partitions."""

    def __init__(self, partitions: int, *, count: int) -> None:
        self.partitions = partitions
        self.count = count
        self.name = f"partitions-{partitions}"
        self.title = f"produce, batch {BATCH}, {partitions} partitions"
        bar = Bar(0.9, "at least", "case", case="partitions-1") if partitions > 1 else None
        self.metrics = (
            Metric("raw throughput", "msg/s", bar, summary="max"),
            Metric("raw broker CPU", "s per M"),
            Metric("client throughput", "msg/s", bar, summary="max"),
            Metric("client broker CPU", "s per M"),
            Metric("memory", "MB"),
            Metric("create topic", "s"),
        )

    def prepare(self, context: Context) -> None:
        """One round that does not count: otherwise a JVM that grows warm would hide how cost grows."""
        self.run(context)

    def run(self, context: Context) -> Values:
        broker, topic = context.broker, context.topic(self)
        with Stopwatch(broker.pid) as creation:
            create_topic(broker, topic, partitions=self.partitions)
        frames = build_frames(topic, partitions=self.partitions, records=BATCH)
        pump(broker, frames, requests=max(self.partitions, self.count // BATCH // 4))
        with Stopwatch(broker.pid) as raw:
            pump(broker, frames, requests=self.count // BATCH)
        producer = make_producer(broker, Workload(self.count, BATCH))
        self._send(producer, topic, self.partitions * BATCH)
        with Stopwatch(broker.pid) as client:
            self._send(producer, topic, self.count)
        return {
            "raw throughput": raw.rate(self.count),
            "raw broker CPU": raw.cpu_per_million(self.count),
            "client throughput": client.rate(self.count),
            "client broker CPU": client.cpu_per_million(self.count),
            "memory": broker.resident_bytes() / 1e6,
            "create topic": creation.seconds,
        }

    def _send(self, producer: Producer, topic: str, count: int) -> None:
        for number in range(count):
            producer.produce(topic, VALUE, partition=number // BATCH % self.partitions)
        if unsent := producer.flush(FLUSH_TIMEOUT_SECONDS):
            raise BenchError(f"{unsent} messages were not sent within {FLUSH_TIMEOUT_SECONDS:g} s")
