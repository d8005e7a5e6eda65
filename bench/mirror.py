"""A mirror: how fast it copies what is there already, what CPU that costs it, and how late a message is at the target.

For Millstream that is `millstream mirror run` between two brokers, for Kafka MirrorMaker 2 between two of Kafka's (or a loop of
confluent-kafka, see `mirror_maker`). The time begins with the first message at the target, so that no start of a process counts.
"""

import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from time import monotonic, sleep, time
from typing import Final, Self

from confluent_kafka import Consumer, Producer, TopicPartition

from bench import mirror_maker
from bench.case import Bar, BenchError, Case, Context, Metric, Values
from bench.load import build_frames, pump
from bench.measure import cpu_seconds, percentile
from bench.peers.broker import Broker
from bench.peers.service import Service
from bench.topics import create_topic

TOPIC: Final = "mirrored"
PARTITIONS: Final = 4
RECORDS_PER_BATCH: Final = 200
RATE: Final = 1000
PATIENCE_S: Final = 300.0
LISTENER_PATIENCE_S: Final = 60.0


class Mirroring(Case):
    """One amount of data, then a steady rate."""

    isolated = True
    max_rounds = 3

    def __init__(self, megabytes: int, *, seconds: int) -> None:
        self.megabytes = megabytes
        self.seconds = seconds
        self.name = f"mirror-{megabytes}MB"
        self.title = f"mirror {megabytes} MB in {PARTITIONS} partitions, then {RATE} msg/s"
        self.metrics = (
            Metric("throughput", "MB/s", Bar(2.0, "at least", "kafka"), summary="max"),
            Metric("CPU of the mirror", "s/GB", Bar(0.25, "at most", "kafka")),
            Metric("live to offline, p50", "ms"),
            Metric("live to offline, p99", "ms", Bar(100.0, "at most", "value")),
            Metric("CPU of the mirror at the rate", "%"),
        )

    def run(self, context: Context) -> Values:
        directory = context.directory / f"round-{context.round_number}"
        source = context.peer.start(directory / "source")
        try:
            target = context.peer.start(directory / "target")
            try:
                return self._measure(source, target, directory)
            finally:
                target.kill()
        finally:
            source.kill()

    def _measure(self, source: Broker, target: Broker, directory: Path) -> Values:
        create_topic(source, TOPIC, partitions=PARTITIONS)
        frames = build_frames(TOPIC, partitions=PARTITIONS, records=RECORDS_PER_BATCH)
        requests = self.megabytes * 1_000_000 // len(frames[0])
        pump(source, frames, requests=requests)
        with copier(source, target, directory) as process:
            values = _catch_up(
                target, process.pid, messages=requests * RECORDS_PER_BATCH, bytes_per_message=len(frames[0]) / RECORDS_PER_BATCH
            )
            cpu, began = cpu_seconds(process.pid), monotonic()
            delays = _delays(source, target, seconds=self.seconds)
            share = (cpu_seconds(process.pid) - cpu) / (monotonic() - began)
        return values | {
            "live to offline, p50": percentile(delays, 50),
            "live to offline, p99": percentile(delays, 99),
            "CPU of the mirror at the rate": share * 100,
        }


@contextmanager
def copier(source: Service, target: Service, directory: Path) -> Iterator["subprocess.Popen[bytes]"]:
    """What copies from one broker to the other: our own mirror, or Kafka's."""
    live, offline = source.bootstrap_servers, target.bootstrap_servers
    if source.name == "kafka":
        create_topic(target, TOPIC, partitions=PARTITIONS)
        command = mirror_maker.command(live, offline, topic=TOPIC, directory=directory)
    else:
        command = [str(Path(sys.executable).with_name("millstream")), "mirror", "run", "--from", live, "--to", offline, "--topics", TOPIC]
    process = mirror_maker.start(command, directory)
    try:
        yield process
    finally:
        process.terminate()
        try:
            process.wait(20)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def _catch_up(target: Service, pid: int, *, messages: int, bytes_per_message: float) -> dict[str, float]:
    """From the first messages at the target to the last."""
    first = _await_messages(target, 1)
    began, cpu = monotonic(), cpu_seconds(pid)
    _await_messages(target, messages)
    megabytes = (messages - first) * bytes_per_message / 1e6
    if not megabytes:
        raise BenchError(f"all {messages} messages were there at the first look: take more")
    return {"throughput": megabytes / (monotonic() - began), "CPU of the mirror": (cpu_seconds(pid) - cpu) / megabytes * 1000}


def _await_messages(target: Service, wanted: int) -> int:
    deadline = monotonic() + PATIENCE_S
    while (count := _messages(target)) < wanted:
        if monotonic() > deadline:
            raise BenchError(f"only {count} of {wanted} messages were copied within {PATIENCE_S:g} s")
        sleep(0.01)
    return count


def _messages(target: Service) -> int:
    try:
        with target.connect() as connection:
            return sum(max(connection.end_offset(TOPIC, partition), 0) for partition in range(PARTITIONS))
    except (BenchError, OSError):
        return 0


def _delays(source: Service, target: Service, *, seconds: int) -> list[float]:
    """How late messages are, in ms: each carries when it was handed to its producer. Counted once every partition has been heard of."""
    producer = Producer({"bootstrap.servers": source.bootstrap_servers, "linger.ms": 0, "acks": 1, "log_level": 2})
    with _Listener(target) as listener:
        for partition in range(PARTITIONS):
            producer.produce(TOPIC, b"%f" % time(), partition=partition)
        producer.flush(30)
        listener.wait_for(PARTITIONS)
        began, count = monotonic(), RATE * (seconds + 1)
        for number in range(count):
            sleep(max(began + number / RATE - monotonic(), 0))
            producer.produce(TOPIC, b"%f" % time(), partition=number % PARTITIONS)
            producer.poll(0)
        producer.flush(30)
        listener.wait_for(PARTITIONS + count)
    return listener.delays[PARTITIONS + RATE :]


class _Listener:
    """Consumes at the target, from its end on."""

    def __init__(self, target: Service) -> None:
        self.delays: list[float] = []
        self._is_over = threading.Event()
        self._thread = threading.Thread(target=self._consume, daemon=True)
        self._consumer = Consumer(
            {"bootstrap.servers": target.bootstrap_servers, "group.id": "delays", "fetch.wait.max.ms": 10, "log_level": 2}
        )
        with target.connect() as connection:
            ends = [connection.end_offset(TOPIC, partition) for partition in range(PARTITIONS)]
        self._consumer.assign([TopicPartition(TOPIC, partition, end) for partition, end in enumerate(ends)])

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._is_over.set()
        self._thread.join()
        self._consumer.close()

    def wait_for(self, count: int) -> None:
        deadline = monotonic() + LISTENER_PATIENCE_S
        while len(self.delays) < count:
            if monotonic() > deadline:
                raise BenchError(f"{count} messages were sent and {len(self.delays)} came to the target")
            sleep(0.01)

    def _consume(self) -> None:
        while not self._is_over.is_set():
            values = [message.value() for message in self._consumer.consume(500, 0.01) if message.error() is None]
            now = time()
            self.delays.extend((now - float(value)) * 1000 for value in values if value)
