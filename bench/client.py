"""Millstream's own client, the one of the paper, beside confluent-kafka alone: the same broker, the same settings of librdkafka, in turn.

    producer    200 bytes each in sets of 50, until the last is acknowledged: given payloads, as confluent-kafka is, or as `Message` objects
    stream      iterating a stream over one partition, reading each payload; confluent-kafka consumes in batches of 1000 without a group

Both within one round, twice each in turn, the better of the two: what another process takes away hits both.
"""

from collections.abc import Callable
from time import perf_counter, process_time
from typing import Any, NamedTuple
from uuid import uuid4

from confluent_kafka import Consumer as ConfluentConsumer
from confluent_kafka import Producer as ConfluentProducer
from confluent_kafka import TopicPartition

from bench.case import Bar, BenchError, Case, Context, Metric, Values
from bench.load import VALUE
from bench.peers.millstream import coordination_of
from bench.produce import Workload, produce
from bench.topics import create_topic, drop_topic
from millstream import Consumer, Message, MessageSet, Producer

SET_SIZE = 50
TURNS = 2
FLUSH_SECONDS = 120.0
QUEUE: dict[str, Any] = {"queue.buffering.max.messages": 10_000_000, "queue.buffering.max.kbytes": 4_000_000, "linger.ms": 5}
PRODUCING: dict[str, Any] = {**QUEUE, "partitioner": "murmur2_random", "enable.idempotence": True, "delivery.report.only.error": True}
CONSUMING: dict[str, Any] = {
    "group.id": "bench",
    "enable.auto.commit": False,
    "enable.auto.offset.store": False,
    "auto.offset.reset": "error",
    "fetch.queue.backoff.ms": 5,
}


class Pace(NamedTuple):
    """How fast it went, and what it cost the client's process, all threads together."""

    rate: float
    cpu_us: float


class Stopwatch:
    """Times a number of messages."""

    def __init__(self, count: int) -> None:
        self._count = count
        self._started, self._cpu = perf_counter(), process_time()

    def stop(self) -> Pace:
        """The pace since the start."""
        return Pace(self._count / (perf_counter() - self._started), (process_time() - self._cpu) / self._count * 1e6)


def beside(alone: Callable[[], Pace], ours: Callable[[], Pace]) -> Values:
    """Both, turn by turn, and the best turn of each."""
    turns = [(alone(), ours()) for _ in range(TURNS)]
    best_alone, best_ours = max(pace.rate for pace, _ in turns), max(pace.rate for _, pace in turns)
    cpu_alone, cpu_ours = min(pace.cpu_us for pace, _ in turns), min(pace.cpu_us for _, pace in turns)
    return {
        "throughput": best_ours,
        "confluent-kafka alone": best_alone,
        "share": best_ours / best_alone,
        "client CPU": cpu_ours,
        "client CPU, confluent-kafka alone": cpu_alone,
    }


def metrics(share: float | None) -> tuple[Metric, ...]:
    """The figures of a comparison, and the share to reach."""
    return (
        Metric("throughput", "msg/s", summary="max"),
        Metric("confluent-kafka alone", "msg/s", summary="max"),
        Metric("share", "of confluent-kafka alone", None if share is None else Bar(share, "at least", "value")),
        Metric("client CPU", "us per message"),
        Metric("client CPU, confluent-kafka alone", "us per message"),
    )


class ClientProducer(Case):
    """`Producer.send` with sets of messages."""

    def __init__(self, count: int, *, as_objects: bool) -> None:
        self.count = count
        self.as_objects = as_objects
        self.name = "client-producer-objects" if as_objects else "client-producer"
        self.title = f"Producer.send, sets of 50 {'Message objects' if as_objects else 'payloads'}"
        self.metrics = metrics(None if as_objects else 0.9)

    def run(self, context: Context) -> Values:
        servers, topic = context.broker.bootstrap_servers, context.topic(self)
        create_topic(context.broker, topic, config={"file.delete.delay.ms": "0"})
        try:
            return beside(lambda: self._alone(servers, topic), lambda: self._ours(servers, topic))
        finally:
            drop_topic(context.broker, topic)

    def _alone(self, servers: str, topic: str) -> Pace:
        producer = ConfluentProducer({"bootstrap.servers": servers, **PRODUCING})
        producer.produce(topic, VALUE)
        producer.flush(FLUSH_SECONDS)
        watch = Stopwatch(self.count)
        for _ in range(self.count):
            producer.produce(topic, VALUE)
        if producer.flush(FLUSH_SECONDS):
            raise BenchError("messages were not sent")
        return watch.stop()

    def _ours(self, servers: str, topic: str) -> Pace:
        with Producer(servers, options=QUEUE) as producer:
            producer.send(topic, VALUE)
            producer.flush()
            watch = Stopwatch(self.count)
            for _ in range(self.count // SET_SIZE):
                content = [Message(VALUE) for _ in range(SET_SIZE)] if self.as_objects else [VALUE for _ in range(SET_SIZE)]
                producer.send(topic, MessageSet(content))
            producer.flush(FLUSH_SECONDS)
            return watch.stop()


class ClientStream(Case):
    """Iterating a `MessageStream`."""

    def __init__(self, count: int) -> None:
        self.count = count
        self.name, self.title = "client-stream", "iterating a stream"
        self.metrics = metrics(0.7)

    def prepare(self, context: Context) -> None:
        create_topic(context.broker, self.name)
        produce(context.broker, self.name, Workload(self.count, 10_000))

    def run(self, context: Context) -> Values:
        servers = context.broker.bootstrap_servers
        return beside(lambda: self._alone(servers), lambda: self._ours(coordination_of(context.broker)))

    def _alone(self, servers: str) -> Pace:
        consumer = ConfluentConsumer({"bootstrap.servers": servers, **CONSUMING})
        try:
            consumer.assign([TopicPartition(self.name, 0, 0)])
            first = consumer.poll(30)
            if first is None:
                raise BenchError("no message came")
            watch, received = Stopwatch(self.count), 1
            while received < self.count:
                for message in consumer.consume(min(1000, self.count - received), 1):
                    message.value()
                    received += 1
            return watch.stop()
        finally:
            consumer.close()

    def _ours(self, coordination: str) -> Pace:
        with Consumer(coordination, f"bench-{uuid4().hex}") as consumer:
            [stream] = consumer.create_message_streams(self.name)
            messages = iter(stream)
            next(messages)
            watch = Stopwatch(self.count)
            for received, message in enumerate(messages, 2):
                message.payload  # noqa: B018 - reading it is the work
                if received == self.count:
                    break
            return watch.stop()
