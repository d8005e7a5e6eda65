"""Spark reads a topic: our source beside Spark's own connector, in one session, on the same broker.

Rates are of whole queries, planning included. The first queries of a session pay for the JVM's and numba's warm-up, so some are run before
anything is measured. Ratios are of one round: both connectors, one after the other, in turn.
"""

import io
import json
import os
from abc import abstractmethod
from collections.abc import Callable
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory
from time import monotonic, time
from typing import TYPE_CHECKING, Any

import fastavro
from pyspark.errors import PySparkException

from bench.case import Bar, BenchError, Case, Context, Metric, Values
from bench.measure import process_tree
from bench.peers.broker import Broker
from bench.spark_session import connector_jars, session
from bench.topics import create_topic
from millstream.client.cluster import Cluster
from millstream.client.codecs.produce import BatchFor
from millstream.wire.records import Record, encode_batch

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

PARTITIONS = 4
VALUE_BYTES = 200
RECORDS_PER_BATCH = 500
WARM_UP_QUERIES = 2
OURS, SPARKS = "millstream", "kafka"
USER = {
    "type": "record",
    "name": "page_view",
    "fields": [
        {"name": "id", "type": "long"},
        {"name": "user", "type": "string"},
        {"name": "seconds", "type": "double"},
        {"name": "referrer", "type": ["null", "string"]},
        {"name": "at", "type": {"type": "long", "logicalType": "timestamp-millis"}},
    ],
}


def fill(broker: Broker, topic: str, count: int, make_value: Callable[[int], bytes]) -> None:
    """Write `count` records to the topic's partitions, in ready-made batches."""
    create_topic(broker, topic, partitions=PARTITIONS)
    # Of now: what is older than a week is deleted while the benchmark runs.
    now_ms = int(time() * 1000)
    records = [Record(number, now_ms, None, make_value(number)) for number in range(RECORDS_PER_BATCH)]
    batch = encode_batch(records)
    with Cluster(broker.bootstrap_servers) as cluster:
        for partition in range(PARTITIONS):
            for _ in range(count // PARTITIONS // RECORDS_PER_BATCH):
                cluster.produce(BatchFor(topic, partition, batch), acks=1)


def fill_with_views(broker: Broker, registry_url: str, topic: str, count: int) -> None:
    """Write `count` Avro messages of the schema `USER`, which is registered for them."""
    from millstream.registry.client import RegistryClient  # only cases with Avro need it

    with RegistryClient(registry_url) as registry:
        schema_id = registry.register(f"{topic}-value", json.dumps(USER)).schema_id
    fill(broker, topic, count, lambda number: _page_view(schema_id, number))


def read(broker: Broker, topic: str, format_name: str, **options: str) -> "DataFrame":
    """A batch read of a topic by one of the connectors."""
    reader = session().read.format(format_name).option("kafka.bootstrap.servers", broker.bootstrap_servers)
    return reader.option("subscribe", topic).options(**options).load()


def rate(count: int, work: Callable[[], None]) -> float:
    """Rows per second of some work; what Spark complains about is a `BenchError`."""
    before = monotonic()
    try:
        work()
    except PySparkException as error:
        raise BenchError(f"Spark failed: {str(error)[-300:]}") from None
    return count / (monotonic() - before)


class _SparkCase(Case):
    """What the cases share: a topic, a warm-up, and both connectors in turn."""

    def __init__(self, count: int) -> None:
        self.count = count // (PARTITIONS * RECORDS_PER_BATCH) * PARTITIONS * RECORDS_PER_BATCH

    def prepare(self, context: Context) -> None:
        value = Random(1).randbytes(VALUE_BYTES)
        fill(context.broker, self.name, self.count, lambda number: value)
        for _ in range(WARM_UP_QUERIES):
            for format_name in self.formats():
                self.query(context.broker, format_name)

    def run(self, context: Context) -> Values:
        formats = self.formats() if context.round_number % 2 else self.formats()[::-1]
        rates = {name: rate(self.count, lambda name=name: self.query(context.broker, name)) for name in formats}  # type: ignore[misc]
        values = {"rows": rates[OURS]}
        if SPARKS in rates:
            values |= {"Spark's own": rates[SPARKS], "ratio": rates[OURS] / rates[SPARKS]}
        return values

    @staticmethod
    def formats() -> list[str]:
        """The connectors that can be had."""
        return [OURS, SPARKS] if connector_jars() else [OURS]

    @abstractmethod
    def query(self, broker: Broker, format_name: str) -> None:
        """Read everything once."""


def _metrics(ratio: float) -> tuple[Metric, ...]:
    own = Metric("rows", "rows/s", summary="max")
    if not connector_jars():
        return (own,)
    return own, Metric("Spark's own", "rows/s", summary="max"), Metric("ratio", "x", Bar(ratio, "at least", "value"))


class SparkCount(_SparkCase):
    """Count the rows of a topic and add up the lengths of their values."""

    def __init__(self, count: int) -> None:
        super().__init__(count)
        self.name = "spark-count"
        self.title = "Spark counts rows and sums lengths"
        self.metrics = (*_metrics(1.8), Metric("value only", "rows/s", summary="max"))

    def run(self, context: Context) -> Values:
        values = super().run(context)
        return {**values, "value only": rate(self.count, lambda: self.query(context.broker, OURS, columns="value"))}

    def query(self, broker: Broker, format_name: str, **options: str) -> None:
        data = read(broker, self.name, format_name, **options)
        found = tuple(data.selectExpr("count(*)", "sum(length(value))").collect()[0])
        if found != (self.count, self.count * VALUE_BYTES):
            raise BenchError(f"{format_name} read {found[0]} rows with {found[1]} bytes instead of {self.count}")


class SparkStream(_SparkCase):
    """Read a topic as a stream, in micro-batches of a quarter of it, to nowhere."""

    def __init__(self, count: int) -> None:
        super().__init__(count)
        self.name = "spark-stream"
        self.title = "Spark streams what is available, four micro-batches"
        self.metrics = _metrics(1.5)

    def query(self, broker: Broker, format_name: str) -> None:
        options = {"startingOffsets": "earliest", "maxOffsetsPerTrigger": str(self.count // 4), "subscribe": self.name}
        reader = session().readStream.format(format_name).option("kafka.bootstrap.servers", broker.bootstrap_servers)
        with TemporaryDirectory(prefix="millstream-bench-") as checkpoint:
            writer = reader.options(**options).load().writeStream.format("noop").option("checkpointLocation", checkpoint)
            query = writer.trigger(availableNow=True).start()
            query.awaitTermination()
            rows = sum(event.numInputRows for event in query.recentProgress)
        if rows != self.count:
            raise BenchError(f"{format_name} streamed {rows} rows instead of {self.count}")


class SparkAvro(Case):
    """Read Avro messages of five fields as typed columns. Only ours: Spark's connector knows no registry."""

    def __init__(self, count: int) -> None:
        self.count = count // (PARTITIONS * RECORDS_PER_BATCH) * PARTITIONS * RECORDS_PER_BATCH
        self.name = "spark-avro"
        self.title = "Spark reads Avro as typed columns"
        self.metrics = (Metric("rows", "rows/s", Bar(1_000_000, "at least", "value"), summary="max"),)
        self._registry: Any = None

    def prepare(self, context: Context) -> None:
        from millstream.testing import Broker as InProcessBroker  # its registry: the peer may have none

        if self._registry is None:
            self._registry = InProcessBroker(registry=True).start()
        fill_with_views(context.broker, self._registry.registry_url, self.name, self.count)
        for _ in range(WARM_UP_QUERIES):
            self._query(context.broker)

    def run(self, context: Context) -> Values:
        return {"rows": rate(self.count, lambda: self._query(context.broker))}

    def _query(self, broker: Broker) -> None:
        options = {"value.format": "avro", "schema.registry.url": self._registry.registry_url, "columns": "value"}
        data = read(broker, self.name, OURS, **options)
        sums = "count(*)", "sum(value.id)", "sum(length(value.user))", "count(value.referrer)", "max(value.at)"
        found = data.selectExpr(*sums).collect()[0]
        if found[0] != self.count:
            raise BenchError(f"read {found[0]} rows instead of {self.count}")


class SparkMemory(Case):
    """How much memory a worker takes at most, for a topic and for one four times as large."""

    def __init__(self, count: int) -> None:
        self.count = count
        self.name = "spark-memory"
        self.title = "memory of a Spark worker as a topic grows fourfold"
        self.metrics = (
            Metric("worker", "MB"),
            Metric("growth", "x", Bar(1.1, "at most", "value")),
        )
        self.max_rounds = 1

    def prepare(self, context: Context) -> None:
        value = Random(1).randbytes(VALUE_BYTES)
        for topic, count in ((f"{self.name}-small", self.count // 4), (f"{self.name}-large", self.count)):
            fill(context.broker, topic, count, lambda number: value)

    def run(self, context: Context) -> Values:
        peaks = []
        for topic in (f"{self.name}-small", f"{self.name}-large"):
            for _ in range(2):
                read(context.broker, topic, OURS).selectExpr("sum(length(value))").collect()
            peaks.append(_largest_worker_bytes())
        return {"worker": peaks[1] / 1e6, "growth": peaks[1] / peaks[0]}


def _largest_worker_bytes() -> int:
    """The most memory that any Python worker of the session has had."""
    peaks = []
    for pid in process_tree(os.getpid()):
        try:
            command = Path(f"/proc/{pid}/cmdline").read_bytes()
            status = Path(f"/proc/{pid}/status").read_text()
        except OSError:
            continue
        if b"pyspark" in command and b"daemon" in command:
            peaks += [1024 * int(line.split()[1]) for line in status.splitlines() if line.startswith("VmHWM")]
    return max(peaks)


def _page_view(schema_id: int, number: int) -> bytes:
    output = io.BytesIO()
    value = {"id": number, "user": f"user-{number % 1000}", "seconds": number / 7, "referrer": None if number % 3 else "/index.html",
             "at": 1_700_000_000_000 + number}  # fmt: skip
    fastavro.schemaless_writer(output, fastavro.parse_schema(USER), value)
    return b"\x00" + schema_id.to_bytes(4) + output.getvalue()
