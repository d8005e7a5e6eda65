"""End-to-end latency at a steady 500 messages per second: from just before `produce()` to the consumer's `poll()` returning.

Producer and consumer are two threads of one process, so both read one clock; they wait nearly all the time, so the interpreter
lock is not in the way. The first second is warm-up.
"""

import struct
from threading import Thread
from time import monotonic, monotonic_ns, sleep

from confluent_kafka import Consumer, TopicPartition

from bench.case import Bar, BenchError, Case, Context, Metric, Values
from bench.consume import make_consumer
from bench.load import VALUE
from bench.measure import Stopwatch, percentile
from bench.produce import Workload, make_producer
from bench.topics import create_topic

RATE = 500
PADDING = VALUE[8:]


class Latency(Case):
    """A paced producer and a consumer at the tail of the log."""

    def __init__(self, seconds: int, *, acks: str = "1") -> None:
        self.seconds = seconds
        self.acks = acks
        self.name = "latency" if acks == "1" else f"latency-acks-{acks}"
        self.title = f"end to end at {RATE} msg/s, acks={acks}"
        self.metrics = (
            Metric("p50", "ms"),
            Metric("p99", "ms", Bar(1.0, "at most", "kafka")),
            Metric("broker CPU", "ms per s"),
        )

    def run(self, context: Context) -> Values:
        topic = context.topic(self)
        create_topic(context.service, topic)
        count = RATE * (self.seconds + 1)
        latencies: list[float] = []
        consumer = make_consumer(context.service)
        consumer.assign([TopicPartition(topic, 0, 0)])
        reader = Thread(target=_read, args=(consumer, latencies), kwargs={"count": count, "deadline": monotonic() + self.seconds + 30})
        reader.start()
        try:
            with Stopwatch(*context.service.pids, beside=context.service.coordination_pids) as watch:
                self._send(context, topic, count=count)
        finally:
            # The reader ends by count or by its deadline, whatever became of the producer.
            reader.join()
            consumer.close()
        if len(latencies) != count:
            raise BenchError(f"{len(latencies)} of {count} messages came back")
        counted = latencies[RATE:]
        return {"p50": percentile(counted, 50), "p99": percentile(counted, 99), "broker CPU": watch.cpu * 1000 / watch.seconds}

    def _send(self, context: Context, topic: str, *, count: int) -> None:
        producer = make_producer(context.service, Workload(count, 1, self.acks))
        started_at = monotonic()
        for number in range(count):
            if (pause := started_at + number / RATE - monotonic()) > 0:
                sleep(pause)
            producer.produce(topic, struct.pack(">q", monotonic_ns()) + PADDING, partition=0)
        producer.flush(30)


def _read(consumer: Consumer, latencies: list[float], *, count: int, deadline: float) -> None:
    while len(latencies) < count and monotonic() < deadline:
        message = consumer.poll(0.5)
        if message is None or message.error() is not None:
            continue
        value = message.value()
        assert isinstance(value, bytes)
        latencies.append((monotonic_ns() - struct.unpack_from(">q", value)[0]) / 1e6)
