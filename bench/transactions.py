"""Transactions with confluent-kafka: what one costs and how long it takes, what reading past aborted ones costs, ids after a restart.

A few producers, each with a transactional id and a thread of its own, so that the broker and not one client's waiting decides: begin,
send, commit, again. Kafka answers a commit before its markers are written, and who goes on at once is told to wait (librdkafka: 20 ms),
which is part of what users see.
"""

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from time import monotonic, perf_counter, sleep

from confluent_kafka import Producer, TopicPartition

from bench.case import Bar, BenchError, Case, Context, Metric, Values
from bench.consume import CONSUME_TIMEOUT_SECONDS, make_consumer
from bench.load import VALUE
from bench.measure import Stopwatch, percentile
from bench.peers.broker import Broker
from bench.peers.service import Service
from bench.topics import SILENT, create_topic, drop_topic
from bench.transaction_wire import find_coordinator_request, init_producer_request, initialised_epoch
from bench.warmup import warm_up

PRODUCERS = 4
TIMEOUT_SECONDS = 60.0
PIPELINED = 200
CPU_BAR = Bar(0.25, "at most", "kafka")
AHEAD = Bar(1.0, "at least", "kafka")
NOT_BEHIND = Bar(1.0, "at most", "kafka")
EVERY_ABORTED = 100


class Transactions(Case):
    """Transactions of one size, over so many partitions."""

    def __init__(self, count: int, *, messages: int, partitions: int) -> None:
        self.count = count // PRODUCERS * PRODUCERS
        self.messages = messages
        self.partitions = partitions
        self.name = f"transactions-{messages}-of-{partitions}"
        self.title = f"transactions of {messages} messages over {partitions} partitions"
        self.metrics = (
            Metric("transactions", "per s", AHEAD, summary="max"),
            Metric("broker CPU", "ms each", CPU_BAR),
            Metric("p50", "ms"),
            Metric("p99", "ms", NOT_BEHIND),
        )

    def prepare(self, context: Context) -> None:
        warm_up(lambda number: self._measure(context, f"{context.topic(self)}-{number}")[0].cpu, is_thorough=context.is_warm)

    def run(self, context: Context) -> Values:
        watch, times_ms = self._measure(context, context.topic(self))
        return {
            "transactions": watch.rate(self.count),
            "broker CPU": watch.cpu * 1000 / self.count,
            "p50": percentile(times_ms, 50),
            "p99": percentile(times_ms, 99),
        }

    def _measure(self, context: Context, topic: str) -> tuple[Stopwatch, list[float]]:
        create_topic(context.service, topic, partitions=self.partitions, config={"file.delete.delay.ms": "0"})
        producers = [make_producer(context.service, f"{topic}-{number}") for number in range(PRODUCERS)]
        for producer in producers:
            self._transact(producer, topic, count=2)
        try:
            with Stopwatch(*context.service.pids, beside=context.service.coordination_pids) as watch, ThreadPoolExecutor(PRODUCERS) as pool:
                count = self.count // PRODUCERS
                times = list(pool.map(lambda producer: self._transact(producer, topic, count=count), producers))
        finally:
            drop_topic(context.service, topic)
        return watch, [one for each in times for one in each]

    def _transact(self, producer: Producer, topic: str, *, count: int) -> list[float]:
        """The milliseconds that each took, from its beginning to the answer of its commit."""
        times = []
        for turn in range(count):
            before = perf_counter()
            producer.begin_transaction()
            for number in range(turn * self.messages, (turn + 1) * self.messages):
                producer.produce(topic, VALUE, partition=number % self.partitions)
            producer.commit_transaction(TIMEOUT_SECONDS)
            times.append((perf_counter() - before) * 1000)
        return times


def make_producer(service: Service, transactional_id: str) -> Producer:
    """A transactional producer, initialised."""
    producer = Producer({
        "bootstrap.servers": service.bootstrap_servers,
        "transactional.id": transactional_id,
        "linger.ms": 0,
        "queue.buffering.max.messages": 1_000_000,
        "delivery.report.only.error": True,
        "socket.nagle.disable": True,
        "log_level": SILENT,
    })  # fmt: skip
    producer.init_transactions(TIMEOUT_SECONDS)
    return producer


class ReadCommitted(Case):
    """Read a log in which one of a hundred transactions was aborted, to the end of what is committed."""

    TOPIC = "read-committed"
    MESSAGES = 100

    def __init__(self, count: int) -> None:
        self.transactions = count // self.MESSAGES
        self.name = "read-committed"
        self.title = f"read {count} messages in transactions of {self.MESSAGES}, 1 % of them aborted"
        self.metrics = (Metric("throughput", "msg/s", AHEAD, summary="max"), Metric("broker CPU", "s per M", NOT_BEHIND))

    @property
    def committed(self) -> int:
        return (self.transactions - self.transactions // EVERY_ABORTED) * self.MESSAGES

    def prepare(self, context: Context) -> None:
        create_topic(context.service, self.TOPIC)
        producer = make_producer(context.service, self.TOPIC)
        for number in range(1, self.transactions + 1):
            producer.begin_transaction()
            for _ in range(self.MESSAGES):
                producer.produce(self.TOPIC, VALUE, partition=0)
            if number % EVERY_ABORTED:
                producer.commit_transaction(TIMEOUT_SECONDS)
            else:
                producer.flush(TIMEOUT_SECONDS)
                producer.abort_transaction(TIMEOUT_SECONDS)
        warm_up(lambda number: self._consume(context.service).cpu, is_thorough=context.is_warm)

    def run(self, context: Context) -> Values:
        watch = self._consume(context.service)
        return {"throughput": watch.rate(self.committed), "broker CPU": watch.cpu_per_million(self.committed)}

    def _consume(self, service: Service) -> Stopwatch:
        consumer = make_consumer(service)
        received = 0
        deadline = monotonic() + CONSUME_TIMEOUT_SECONDS
        try:
            with Stopwatch(*service.pids, beside=service.coordination_pids) as watch:
                consumer.assign([TopicPartition(self.TOPIC, 0, 0)])
                while received < self.committed:
                    received += len(consumer.consume(min(10_000, self.committed - received), 1))
                    if monotonic() > deadline:
                        raise BenchError(f"only {received} of {self.committed} messages came within {CONSUME_TIMEOUT_SECONDS:g} s")
            if consumer.consume(1, 0.5):
                raise BenchError(f"more than the {self.committed} committed messages came: aborted ones among them")
        finally:
            consumer.close()
        return watch


class TransactionalIdsLoad(Case):
    """Restart after kill -9 with many transactional ids; ready when one of each hundred is known with its next epoch."""

    isolated = True

    def __init__(self, ids: int, *, max_rounds: int = 3) -> None:
        self.ids = ids
        self.max_rounds = max_rounds
        self.name = f"transactional-ids-{ids}"
        self.title = f"{ids} transactional ids after a restart"
        self.metrics = (Metric("start to loaded", "s", NOT_BEHIND), Metric("CPU to loaded", "s", CPU_BAR))

    def run(self, context: Context) -> Values:
        directory = context.directory / f"round-{context.round_number}"
        broker = context.peer.start(directory)
        try:
            _initialise(broker, range(self.ids), epoch=0)
            broker.kill()
            started_at = monotonic()
            broker = context.peer.start(directory)
            _initialise(broker, range(0, self.ids, 100), epoch=1)
            loaded = monotonic()
            cpu = broker.cpu_seconds()
        finally:
            broker.kill()
        return {"start to loaded": loaded - started_at, "CPU to loaded": cpu}


def _initialise(broker: Broker, numbers: Sequence[int], *, epoch: int) -> None:
    """InitProducerId for these ids, many at a time, until each was given the epoch."""
    deadline = monotonic() + TIMEOUT_SECONDS * 3
    waiting = [f"transactional-id-{number}" for number in numbers]
    with broker.connect() as connection:
        connection.call(find_coordinator_request(waiting[0]))
        while waiting:
            if monotonic() > deadline:
                raise BenchError(f"{len(waiting)} of {len(numbers)} transactional ids were not initialised")
            tried, waiting = waiting[:PIPELINED], waiting[PIPELINED:]
            connection.socket.sendall(b"".join(map(init_producer_request, tried)))
            answers = [initialised_epoch(connection.read_answer()) for _ in tried]
            if again := [name for name, answer in zip(tried, answers, strict=True) if answer is None]:
                waiting += again
                sleep(0.01)
            if others := {answer for answer in answers if answer is not None} - {epoch}:
                raise BenchError(f"a transactional id was given epoch {others.pop()} instead of {epoch}")
