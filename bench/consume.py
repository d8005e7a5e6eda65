"""Consume a whole partition from its beginning with confluent-kafka, assigned directly and without commits."""

from time import monotonic

from confluent_kafka import Consumer, TopicPartition

from bench.case import Bar, BenchError, Case, Context, Metric, Values
from bench.measure import Stopwatch
from bench.peers.service import Service
from bench.produce import Workload, produce
from bench.topics import create_topic
from bench.warmup import warm_up

CONSUME_TIMEOUT_SECONDS = 180.0


class Consume(Case):
    """Read what one producer with big batches wrote."""

    def __init__(self, count: int) -> None:
        self.count = count
        self.name = "consume"
        self.title = "consume from the beginning"
        self.metrics = (
            Metric("throughput", "msg/s", Bar(1.0, "at least", "kafka"), summary="max"),
            Metric("broker CPU", "s per M", Bar(1.0, "at most", "kafka")),
        )

    def prepare(self, context: Context) -> None:
        create_topic(context.service, "consume")
        produce(context.service, "consume", Workload(self.count, 10_000))
        warm_up(lambda number: consume(context.service, "consume", start=0, count=self.count).cpu, is_thorough=context.is_warm)

    def run(self, context: Context) -> Values:
        watch = consume(context.service, "consume", start=0, count=self.count)
        return {"throughput": watch.rate(self.count), "broker CPU": watch.cpu_per_million(self.count)}


def consume(service: Service, topic: str, *, start: int, count: int) -> Stopwatch:
    """Read `count` messages of partition 0 from offset `start`; the time and CPU this took."""
    consumer = make_consumer(service)
    try:
        deadline = monotonic() + CONSUME_TIMEOUT_SECONDS
        received = 0
        with Stopwatch(*service.pids, beside=service.coordination_pids) as watch:
            consumer.assign([TopicPartition(topic, 0, start)])
            while received < count:
                # Never more than are due: the call would wait its whole second for messages that do not exist.
                if chunk := consumer.consume(min(10_000, count - received), 1):
                    last = chunk[-1]
                received += len(chunk)
                if monotonic() > deadline:
                    raise BenchError(f"only {received} of {count} messages came within {CONSUME_TIMEOUT_SECONDS:g} s")
        if (error := last.error()) is not None:
            raise BenchError(f"the consumer got an error: {error}")
        if last.offset() != start + count - 1:
            raise BenchError(f"message {count} has offset {last.offset()}: some were lost or came twice")
        return watch
    finally:
        consumer.close()


def make_consumer(service: Service) -> Consumer:
    """A consumer for `assign`: no commits, big fetches."""
    return Consumer({
        "bootstrap.servers": service.bootstrap_servers,
        "group.id": "bench",
        "enable.auto.commit": False,
        "auto.offset.reset": "error",
        "fetch.message.max.bytes": 4_000_000,
        "socket.nagle.disable": True,
        # Otherwise the client rests for a whole second each time it has fetched faster than it is read, and that is all one would measure.
        "fetch.queue.backoff.ms": 10,
    })  # fmt: skip
