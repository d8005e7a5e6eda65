"""What metrics cost: CPU of the broker and of the process beside it, with many partitions and groups, while they are scraped.

Ticks of the kernel are too coarse for one sample in ten seconds, so samples and scrapes come once a second here, and the share of a core is
computed for a sample and a scrape every ten seconds, which is the default. What the broker does when nothing is sampled is taken off.
"""

from time import monotonic, perf_counter, sleep

from bench.case import Bar, BenchError, Case, Context, Metric, Values
from bench.measure import cpu_seconds, resident_bytes
from millstream.cli.serve.command import DEFAULT_METRICS_INTERVAL_S
from tests.connection import API_VERSIONS, CREATE_TOPICS, Connection
from tests.group_offsets import OFFSET_COMMIT, find
from tests.monitoring.published import PublishingBroker

INTERVAL_S = 1.0
GROUPS = 10
TOPICS = 10


class Metrics(Case):
    """One number of partitions, in ten topics, with ten groups that have a commit in each."""

    isolated = True
    max_rounds = 1

    def __init__(self, partitions: int, *, seconds: float) -> None:
        self.partitions = partitions
        self.seconds = seconds
        self.name = f"metrics-{partitions}"
        self.title = f"metrics of {partitions} partitions, {GROUPS} groups"
        self.metrics = (
            Metric("share of a core, every 10 s", "%", Bar(1.0, "at most", "value")),
            Metric("broker", "ms per sample"),
            Metric("process beside it", "ms per sample"),
            Metric("memory of that", "MB"),
            Metric("page", "kB"),
            Metric("slowest answer to another client", "ms"),
        )

    def run(self, context: Context) -> Values:
        broker = PublishingBroker(context.directory / f"round-{context.round_number}", {"offsets.topic.num.partitions": 1})
        broker.directory.mkdir(parents=True)
        broker.flags = ["--no-registry", "--metrics", "127.0.0.1:0", "--metrics-interval", str(INTERVAL_S)]
        broker.start()
        try:
            with broker.connect(timeout_s=120) as connection:
                self._fill(connection)
            return self._measure(broker)
        finally:
            broker.stop()

    def _fill(self, connection: Connection) -> None:
        per_topic = self.partitions // TOPICS
        names = [f"topic-{number}" for number in range(TOPICS)]
        new = [{"name": name, "num_partitions": per_topic, "replication_factor": 1} for name in names]
        created = connection.ask(CREATE_TOPICS, 7, {"topics": new, "timeout_ms": 100_000})
        if any(topic.error_code for topic in created.topics):
            raise BenchError(f"the topics were not created: {created}")
        entry = {"committed_offset": 0, "committed_leader_epoch": 0, "committed_metadata": ""}
        offsets = [{"name": name, "partitions": [{"partition_index": index, **entry} for index in range(per_topic)]} for name in names]
        for number in range(GROUPS):
            group = f"group-{number}"
            while find(connection, group)[0].error_code:
                sleep(0.1)
            fields = {"group_id": group, "generation_id_or_member_epoch": -1, "member_id": "", "topics": offsets}
            connection.ask(OFFSET_COMMIT, 8, fields)

    def _measure(self, broker: PublishingBroker) -> Values:
        idle, _ = self._cpu_while(broker, beside=None)
        page = broker.page("/metrics")[1]
        [beside] = broker.publishers
        sleep(2 * INTERVAL_S)
        own, process = self._cpu_while(broker, beside=beside)
        samples = self.seconds / INTERVAL_S
        in_broker, in_process = max(own - idle, 0.0) / samples, process / samples
        return {
            "share of a core, every 10 s": 100 * (in_broker + in_process) / DEFAULT_METRICS_INTERVAL_S,
            "broker": 1000 * in_broker,
            "process beside it": 1000 * in_process,
            "memory of that": resident_bytes(beside) / 1e6,
            "page": len(page) / 1e3,
            "slowest answer to another client": 1000 * self._slowest_answer(broker),
        }

    def _cpu_while(self, broker: PublishingBroker, *, beside: int | None) -> tuple[float, float]:
        """CPU of the broker and of the process beside it, for some seconds, scraped once in each; None: there is none, and no scrape."""
        began = _cpu_of(broker, beside)
        until = monotonic() + self.seconds
        while monotonic() < until:
            if beside is not None:
                broker.page("/metrics")
            sleep(INTERVAL_S)
        ended = _cpu_of(broker, beside)
        return ended[0] - began[0], ended[1] - began[1]

    def _slowest_answer(self, broker: PublishingBroker) -> float:
        """What a client waits at most for a small answer, while samples are taken."""
        slowest = 0.0
        until = monotonic() + self.seconds
        with broker.connect() as connection:
            while monotonic() < until:
                began = perf_counter()
                connection.ask(API_VERSIONS, 3, {"client_software_name": "bench", "client_software_version": "1"})
                slowest = max(slowest, perf_counter() - began)
                sleep(0.0005)
        return slowest


def _cpu_of(broker: PublishingBroker, beside: int | None) -> tuple[float, float]:
    process = 0.0 if beside is None else cpu_seconds(beside)
    return cpu_seconds(broker.pid) - process, process
