"""Several brokers of one machine, `serve --processes N`: how fast they start, what they take, and what a message costs beside one process.

The producers are confluent-kafka's, one per partition, each in a thread (librdkafka works outside of Python's lock): batches of 50 to a
topic of as many partitions as there are processes. Clients need cores too, so throughput is compared only where there are four.
"""

import os
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from time import monotonic

from confluent_kafka import Producer

from bench.case import Bar, BenchError, Case, Context, Metric, Values
from bench.load import VALUE
from bench.measure import Stopwatch, cpu_seconds, resident_bytes
from bench.topics import SILENT
from tests.processes.brokers import ProcessesBroker

CORES_FOR_THROUGHPUT = 4
BATCH = 50
FLUSH_S = 180


class ProcessesStart(Case):
    """From exec to the ready line, on an empty directory; memory of the largest child."""

    isolated = True

    def __init__(self, processes: int) -> None:
        self.processes = processes
        self.name = f"processes-start-{processes}"
        self.title = f"{processes} processes, start to ready"
        self.metrics = (
            Metric("time", "s", Bar(1.5, "at most", "value")),
            Metric("CPU to start", "s"),
            Metric("memory of a process", "MB", Bar(45.0, "at most", "value")),
            Metric("memory of the parent", "MB"),
            Metric("clean stop", "s"),
        )

    def run(self, context: Context) -> Values:
        broker = ProcessesBroker(context.directory / f"round-{context.round_number}", processes=self.processes)
        begun = monotonic()
        broker.start()
        started = monotonic()
        try:
            cpu = cpu_seconds(broker.pid)
            largest = max(resident_bytes(pid) for pid in broker.children().values())
            parent = resident_bytes(broker.pid) - sum(resident_bytes(pid) for pid in broker.children().values())
        finally:
            stopping = monotonic()
            broker.stop()
        return {
            "time": started - begun,
            "CPU to start": cpu,
            "memory of a process": largest / 1e6,
            "memory of the parent": parent / 1e6,
            "clean stop": monotonic() - stopping,
        }


class ProcessesProduce(Case):
    """The same load on one process and on several."""

    isolated = True

    def __init__(self, count: int, *, processes: int) -> None:
        self.count = count
        self.processes = processes
        self.has_cores = len(os.sched_getaffinity(0)) >= CORES_FOR_THROUGHPUT
        self.name = f"processes-produce-{processes}"
        self.title = f"produce to {processes} processes, batch {BATCH}"
        self.metrics = (
            Metric("CPU per message, of one process", "x", Bar(1.1, "at most", "value")),
            Metric("largest share of a process", "x", Bar(1.2, "at most", "value")),
            Metric("smallest share of a process", "x", Bar(0.8, "at least", "value")),
            *([Metric("throughput, of one process", "x", Bar(1.6, "at least", "value"))] if self.has_cores else []),
        )

    def run(self, context: Context) -> Values:
        if not self.has_cores:
            context.say(f"throughput is not compared: that takes {CORES_FOR_THROUGHPUT} cores, the clients need some of them")
        place = context.directory / f"round-{context.round_number}"
        one, _ = self._measure(place / "one", processes=0)
        several, shares = self._measure(place / "several", processes=self.processes)
        values = {
            "CPU per message, of one process": several.cpu / one.cpu,
            "largest share of a process": max(shares),
            "smallest share of a process": min(shares),
        }
        return values | ({"throughput, of one process": one.seconds / several.seconds} if self.has_cores else {})

    def _measure(self, directory: Path, *, processes: int) -> tuple[Stopwatch, list[float]]:
        """Time and CPU, and the CPU of each child as a part of the average."""
        broker = ProcessesBroker(directory, processes=processes)
        broker.start()
        try:
            topic = broker.create_topic(partitions=self.processes)
            self._produce(broker, topic, self.count // 10)
            children = list(broker.children().values()) if processes else [broker.pid]
            before = [cpu_seconds(pid) for pid in children]
            with Stopwatch(broker.pid) as watch:
                self._produce(broker, topic, self.count)
            used = [cpu_seconds(pid) - so_far for pid, so_far in zip(children, before, strict=True)]
        finally:
            broker.stop()
        return watch, [each * len(used) / sum(used) for each in used]

    def _produce(self, broker: ProcessesBroker, topic: str, count: int) -> None:
        with ThreadPoolExecutor() as threads:
            for unsent in threads.map(lambda partition: self._fill(broker, topic, partition, count), range(self.processes)):
                if unsent:
                    raise BenchError(f"{unsent} messages were not sent")

    def _fill(self, broker: ProcessesBroker, topic: str, partition: int, count: int) -> int:
        options = {"batch.num.messages": BATCH, "linger.ms": 50, "queue.buffering.max.messages": 10_000_000, "log_level": SILENT}
        producer = Producer({"bootstrap.servers": broker.bootstrap_servers, **options})
        for _ in range(count // self.processes):
            producer.produce(topic, VALUE, partition=partition)
        return producer.flush(FLUSH_S)
