"""Produce with confluent-kafka: 200-byte values into one partition, in batches of 10 000, 50 or one.

"Batch n" is librdkafka's `batch.num.messages`, with a linger of 50 ms (none for batches of one); its `batch.size` of 1 MB ends
batches of 10 000 at about 4 700, for every peer alike. A round ends when the last message is acknowledged, and the partition's
end offset must then agree.
"""

from dataclasses import dataclass

from confluent_kafka import KafkaError, Message, Producer

from bench.case import Bar, BenchError, Case, Context, Metric, Values
from bench.load import VALUE
from bench.measure import Stopwatch
from bench.peers.service import Service
from bench.topics import SILENT, create_topic, drop_topic
from bench.warmup import warm_up

FLUSH_TIMEOUT_SECONDS = 180.0
THROUGHPUT_BARS = {10_000: 1.2, 50: 1.5, 1: 4.0}
CPU_BAR = 0.25


@dataclass(frozen=True, slots=True)
class Workload:
    """How a producer is set up."""

    count: int
    batch: int
    acks: str = "1"
    linger_ms: int = 50


class Produce(Case):
    """One batch size, one kind of acknowledgement."""

    def __init__(self, workload: Workload) -> None:
        suffix = "" if workload.acks == "1" else f"-acks-{workload.acks}"
        self.workload = workload
        self.name = f"produce-{workload.batch}{suffix}"
        self.title = f"produce, batch {workload.batch}, acks={workload.acks}"
        # The throughput bars are stated for acks=1; with acks=all the aim is to be ahead, at a quarter of the cost.
        throughput_bar = THROUGHPUT_BARS.get(workload.batch, 1.0) if workload.acks == "1" else 1.0
        self.metrics = (
            Metric("throughput", "msg/s", Bar(throughput_bar, "at least", "kafka"), summary="max"),
            Metric("broker CPU", "s per M", Bar(CPU_BAR, "at most", "kafka")),
        )

    def prepare(self, context: Context) -> None:
        warm_up(lambda number: self.measure(context, f"{context.topic(self)}-{number}").cpu, is_thorough=context.is_warm)

    def run(self, context: Context) -> Values:
        watch = self.measure(context, context.topic(self))
        return {"throughput": watch.rate(self.workload.count), "broker CPU": watch.cpu_per_million(self.workload.count)}

    def measure(self, context: Context, topic: str) -> Stopwatch:
        """The work, once, on a topic of its own."""
        create_topic(context.service, topic, config={"file.delete.delay.ms": "0"})
        try:
            return produce(context.service, topic, self.workload)
        finally:
            drop_topic(context.service, topic)


def produce(service: Service, topic: str, workload: Workload) -> Stopwatch:
    """Send the messages to partition 0 and wait for all acknowledgements; the time and CPU this took."""
    failures: list[KafkaError] = []

    def on_delivery(error: KafkaError | None, message: Message) -> None:
        if error is not None:
            failures.append(error)

    producer = make_producer(service, workload, on_delivery=on_delivery)
    # The first message pays for the connection and the metadata, outside the measured time.
    producer.produce(topic, VALUE, partition=0)
    producer.flush(FLUSH_TIMEOUT_SECONDS)
    with Stopwatch(*service.pids, beside=service.coordination_pids) as watch:
        for _ in range(workload.count):
            producer.produce(topic, VALUE, partition=0)
        unsent = producer.flush(FLUSH_TIMEOUT_SECONDS)
    if unsent or failures:
        raise BenchError(f"{unsent} messages were not sent, {len(failures)} failed: {failures[:1]}")
    with service.connect_to_leader(topic, 0) as connection:
        if (end := connection.end_offset(topic, 0)) != workload.count + 1:
            raise BenchError(f"{workload.count + 1} messages were acknowledged, but the log ends at {end}")
    return watch


def make_producer(service: Service, workload: Workload, *, on_delivery: object = None, reports_all: bool = False) -> Producer:
    """A producer whose queue never fills; unless asked for all, it reports failed deliveries only."""
    configuration: dict[str, object] = {
        "bootstrap.servers": service.bootstrap_servers,
        "acks": workload.acks,
        "batch.num.messages": workload.batch,
        "linger.ms": 0 if workload.batch == 1 else workload.linger_ms,
        "queue.buffering.max.messages": 10_000_000,
        "queue.buffering.max.kbytes": 4_000_000,
        "delivery.report.only.error": not reports_all,
        "message.timeout.ms": int(FLUSH_TIMEOUT_SECONDS * 1000),
        "socket.nagle.disable": True,
        # What it has to say about connections is no news where brokers are killed on purpose; failed messages are reported.
        "log_level": SILENT,
    }
    if on_delivery is not None:
        configuration["on_delivery"] = on_delivery
    return Producer(configuration)
