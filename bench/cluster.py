"""What replication costs: the core cases on three brokers with three replicas of everything, acks=all and two in-sync replicas at least.

The work is that of `bench single`, so the figures stand beside those of one broker. CPU and memory are sums over the three brokers; what
ZooKeeper uses stands in a row of its own (Kafka's controllers are inside its brokers and counted with them).
"""

from bench.case import Bar, Context, Metric, Values
from bench.latency import Latency
from bench.measure import resident_bytes
from bench.memory import Memory
from bench.produce import Produce, Workload
from bench.topics import create_topic, drop_topic

CPU_BAR = 0.4
MEMORY_BAR = 0.1


class ReplicatedProduce(Produce):
    """One batch size."""

    def __init__(self, count: int, *, batch: int) -> None:
        super().__init__(Workload(count, batch, "all"))
        self.name = f"replicated-{batch}"
        self.title = f"produce, batch {batch}, acks=all, 3 replicas"
        self.metrics = (
            Metric("throughput", "msg/s", Bar(1.0, "at least", "kafka"), summary="max"),
            Metric("CPU of all brokers", "s per M", Bar(CPU_BAR, "at most", "kafka")),
            Metric("ZooKeeper's CPU", "s per M"),
        )

    def run(self, context: Context) -> Values:
        watch = self.measure(context, context.topic(self))
        count = self.workload.count
        return {
            "throughput": watch.rate(count),
            "CPU of all brokers": watch.cpu_per_million(count),
            "ZooKeeper's CPU": watch.cpu_beside / count * 1_000_000,
        }


class ReplicatedLatency(Latency):
    """A message is read when it is on all in-sync replicas, so this is the way there and back again."""

    def __init__(self, seconds: int) -> None:
        super().__init__(seconds, acks="all")
        self.name = "replicated-latency"
        self.title = f"{self.title}, 3 replicas"

    def prepare(self, context: Context) -> None:
        """Once without measuring: a queue that grew while a JVM was cold would be all that is seen."""
        self.run(context)


class LatencyAmongMany(ReplicatedLatency):
    """The same beside many partitions in which nothing happens: followers ask for all of them in each fetch."""

    max_rounds = 1

    def __init__(self, seconds: int, *, partitions: int) -> None:
        super().__init__(seconds)
        self.partitions = partitions
        self.name = f"latency-among-{partitions}"
        self.title = f"{self.title}, {partitions} idle partitions"

    def prepare(self, context: Context) -> None:
        """Everything is warm already."""

    def run(self, context: Context) -> Values:
        idle = f"{context.topic(self)}-idle"
        create_topic(context.service, idle, partitions=self.partitions)
        try:
            return super().run(context)
        finally:
            drop_topic(context.service, idle)


class ClusterMemory(Memory):
    """All brokers together."""

    def __init__(self, *, heap: str) -> None:
        self.name = "cluster-memory"
        self.title = f"memory of three brokers after the run (Kafka with -Xmx{heap} each)"
        self.metrics = (Metric("resident", "MB", Bar(MEMORY_BAR, "at most", "kafka")), Metric("peak", "MB"), Metric("ZooKeeper's", "MB"))

    def run(self, context: Context) -> Values:
        return {**super().run(context), "ZooKeeper's": resident_bytes(*context.service.coordination_pids) / 1e6}
