"""Spark writes a topic: our sink beside Spark's own connector, in one session, to the same broker; and what exactly-once costs.

Rates are of whole queries. The rows are made by Spark while they are written, the same for both: a key of up to seven digits and a value of
200 bytes. Avro is ours alone: Spark's connector knows no registry. What was written is counted at the broker.
"""

import tempfile
from statistics import median
from time import monotonic, sleep
from typing import TYPE_CHECKING, Any

from bench.case import Bar, BenchError, Case, Context, Metric, Values
from bench.peers.broker import Broker
from bench.spark_session import connector_jars, session
from bench.topics import create_topic
from millstream.client.cluster import Cluster
from millstream.offset import LATEST
from millstream.topic_partition import TopicPartition

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

PARTITIONS = 4
TASKS = 4
WARM_UP_ROWS = 100_000
MICRO_BATCHES = 20
MICRO_BATCH_ROWS = 1_000
LONGEST_QUERY_S = 120
OURS, SPARKS = "millstream", "kafka"
GUARANTEES = ("at-least-once", "exactly-once")


def rows(count: int) -> "DataFrame":
    """Keys and values of 200 bytes."""
    return session().range(0, count, 1, TASKS).selectExpr("cast(id as string) as key", "lpad(cast(id as string), 200, 'x') as value")


def typed_rows(count: int) -> "DataFrame":
    """Five columns of five types."""
    return session().range(0, count, 1, TASKS).selectExpr(
        "id", "concat('user-', id % 1000) as user", "id / 7 as seconds", "if(id % 3 = 0, null, 'https://example.org/') as referrer",
        "timestamp_micros(1700000000000000 + id) as at",
    )  # fmt: skip


def written(broker: Broker, topic: str) -> int:
    """How many records the topic has."""
    with Cluster(broker.bootstrap_servers) as cluster:
        ends = cluster.offsets({TopicPartition(topic, partition): LATEST for partition in range(PARTITIONS)})
    return sum(end.offset for end in ends.values())


def write(broker: Broker, topic: str, data: "DataFrame", format_name: str, **options: str) -> float:
    """Write all rows to a new topic; returns the seconds it took."""
    create_topic(broker, topic, partitions=PARTITIONS)
    writer = data.write.format(format_name).mode("append").option("kafka.bootstrap.servers", broker.bootstrap_servers)
    before = monotonic()
    writer.option("topic", topic).options(**options).save()
    return monotonic() - before


class SparkWrite(Case):
    """Write keys and values, by both connectors in turn."""

    def __init__(self, count: int) -> None:
        self.count = count
        self.name = "spark-write"
        self.title = "Spark writes rows of 200 bytes"
        own = Metric("rows", "rows/s", summary="max")
        theirs = (Metric("Spark's own", "rows/s", summary="max"), Metric("ratio", "x", Bar(1.0, "at least", "value")))
        self.metrics = (own, *theirs) if connector_jars() else (own,)

    def prepare(self, context: Context) -> None:
        for format_name in self._formats():
            for turn in range(2):
                write(context.broker, f"{self.name}-warm-{format_name}-{turn}", rows(WARM_UP_ROWS), format_name)

    def run(self, context: Context) -> Values:
        formats = self._formats() if context.round_number % 2 else self._formats()[::-1]
        rates = {name: self._rate(context, name) for name in formats}
        values = {"rows": rates[OURS]}
        if SPARKS in rates:
            values |= {"Spark's own": rates[SPARKS], "ratio": rates[OURS] / rates[SPARKS]}
        return values

    def _rate(self, context: Context, format_name: str) -> float:
        topic = f"{context.topic(self)}-{format_name}"
        seconds = write(context.broker, topic, rows(self.count), format_name)
        if (found := written(context.broker, topic)) != self.count:
            raise BenchError(f"{format_name} wrote {found} rows instead of {self.count}")
        return self.count / seconds

    @staticmethod
    def _formats() -> list[str]:
        return [OURS, SPARKS] if connector_jars() else [OURS]


class SparkWriteTyped(Case):
    """Write five typed columns as Avro through a registry, and as JSON."""

    name = "spark-write-typed"
    title = "Spark writes five typed columns"
    metrics = (Metric("avro", "rows/s", summary="max"), Metric("json", "rows/s", summary="max"))

    def __init__(self, count: int) -> None:
        self.count = count
        self._registry: Any = None

    def prepare(self, context: Context) -> None:
        from millstream.testing import Broker as InProcessBroker  # its registry: the peer may have none

        if self._registry is None:
            self._registry = InProcessBroker(registry=True).start()
        for name, options in self._formats().items():
            for turn in range(2):
                write(context.broker, f"{self.name}-warm-{name}-{turn}", typed_rows(WARM_UP_ROWS), OURS, **options)

    def run(self, context: Context) -> Values:
        values = {}
        for name, options in self._formats().items():
            topic = f"{context.topic(self)}-{name}"
            values[name] = self.count / write(context.broker, topic, typed_rows(self.count), OURS, **options)
            if (found := written(context.broker, topic)) != self.count:
                raise BenchError(f"{found} rows were written as {name} instead of {self.count}")
        return values

    def _formats(self) -> dict[str, dict[str, str]]:
        return {"avro": {"value.format": "avro", "schema.registry.url": self._registry.registry_url}, "json": {"value.format": "json"}}


class SparkWriteOnce(Case):
    """Write in transactions and without, in turn: many rows at once, and micro-batches of few."""

    name = "spark-write-once"
    title = "Spark writes rows of 200 bytes, exactly once and at least once"
    metrics = (
        Metric("at least once", "rows/s", summary="max"),
        Metric("exactly once", "rows/s", summary="max"),
        Metric("ratio", "x"),
        Metric("micro-batch at least once", "ms"),
        Metric("micro-batch exactly once", "ms"),
    )

    def __init__(self, count: int) -> None:
        self.count = count

    def prepare(self, context: Context) -> None:
        for guarantee in GUARANTEES:
            options = {"delivery.guarantee": guarantee}
            write(context.broker, f"{self.name}-warm-{guarantee}", rows(WARM_UP_ROWS), OURS, **options)
            micro_batch_ms(context.broker, f"{self.name}-warm-stream-{guarantee}", **options)

    def run(self, context: Context) -> Values:
        order = GUARANTEES if context.round_number % 2 else GUARANTEES[::-1]
        values: dict[str, float] = {}
        for guarantee in order:
            name, options = guarantee.replace("-", " "), {"delivery.guarantee": guarantee}
            topic = f"{context.topic(self)}-{guarantee}"
            values[name] = self.count / write(context.broker, topic, rows(self.count), OURS, **options)
            found = written(context.broker, topic)
            # A transaction leaves a marker in each partition that it wrote to.
            if not self.count <= found <= self.count + TASKS * PARTITIONS:
                raise BenchError(f"{guarantee} wrote {found} rows instead of {self.count}")
            values[f"micro-batch {name}"] = micro_batch_ms(context.broker, f"{topic}-stream", **options)
        return values | {"ratio": values["exactly once"] / values["at least once"]}


def micro_batch_ms(broker: Broker, topic: str, **options: str) -> float:
    """How long a micro-batch of few rows takes, of some the median."""
    create_topic(broker, topic, partitions=PARTITIONS)
    stream = session().readStream.format("rate-micro-batch").options(rowsPerBatch=MICRO_BATCH_ROWS, numPartitions=TASKS).load()
    values = stream.selectExpr("cast(value as string) as key", "lpad(cast(value as string), 200, 'x') as value")
    with tempfile.TemporaryDirectory() as checkpoint:
        sink = values.writeStream.format(OURS).options(**options).option("kafka.bootstrap.servers", broker.bootstrap_servers)
        # With a pause after each, in which the query can be stopped.
        paused = sink.option("topic", topic).option("checkpointLocation", checkpoint).trigger(processingTime="300 milliseconds")
        query = paused.start()
        deadline = monotonic() + LONGEST_QUERY_S
        while len(query.recentProgress) < MICRO_BATCHES:
            if query.exception() is not None or monotonic() > deadline:
                raise BenchError(f"{len(query.recentProgress)} of {MICRO_BATCHES} micro-batches came: {query.exception()}")
            sleep(0.05)
        query.stop()
        # The first ones compile.
        return median(progress.durationMs["addBatch"] for progress in query.recentProgress[5:MICRO_BATCHES])
