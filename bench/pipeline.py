"""Loads into a lake: ours into Delta tables, Spark's own Parquet sink behind our source, and Spark's own connector with Spark's sink.

Messages are Avro of about 200 bytes, ten fields with two UUIDs, six hours of event time. Each round loads all of them with `--once` into a
new place; the rate is of the whole run, planning included, after warm-up runs. Spark's own connector knows no registry, so it writes the
bytes as they are, which is less work than what ours does: no decoding, and one column instead of ten.
"""

import io
import json
from collections.abc import Callable
from random import Random
from tempfile import TemporaryDirectory
from time import thread_time, time
from typing import Any, Final
from uuid import UUID

import fastavro

from bench.case import Bar, BenchError, Case, Context, Metric, Values
from bench.peers.broker import Broker
from bench.spark_read import PARTITIONS, RECORDS_PER_BATCH, WARM_UP_QUERIES, rate
from bench.spark_session import connector_jars, session
from bench.topics import create_topic
from millstream.arrow.kernels.record_kernel import WITH_KEY, WITH_VALUE
from millstream.arrow.partition_reader import PartitionReader
from millstream.client.cluster import Cluster
from millstream.client.produce import BatchFor
from millstream.lake.hour_files import HourFiles, hours_of
from millstream.lake.place import open_place
from millstream.spark.jobs.load import start_load
from millstream.spark.jobs.load_settings import LoadSettings, TableKind
from millstream.spark.jobs.table_plan import TablePlanner
from millstream.spark.jobs.table_rows import TopicDecoder
from millstream.spark.source.offset_ranges import OffsetRange
from millstream.spark.source.read_options import parse_read_options
from millstream.spark.worker_connections import cluster_for
from millstream.topic_partition import TopicPartition
from millstream.wire.records import Record, encode_batch

HOURS: Final = 6
DISTINCT_BATCHES: Final = 400
_STRINGS: Final = ("page", "referrer", "country", "agent")
VIEW: Final = {
    "type": "record",
    "name": "page_view",
    "fields": [
        {"name": "view_id", "type": "string"},
        {"name": "session_id", "type": "string"},
        {"name": "user", "type": "long"},
        *({"name": name, "type": "string"} for name in _STRINGS),
        {"name": "seconds", "type": "double"},
        {"name": "status", "type": "int"},
        {"name": "at", "type": {"type": "long", "logicalType": "timestamp-millis"}},
    ],
}


class _Filled(Case):
    """What the cases share: a topic of Avro messages, and a registry that knows their schema."""

    def __init__(self, count: int) -> None:
        self.count = count // (PARTITIONS * RECORDS_PER_BATCH) * PARTITIONS * RECORDS_PER_BATCH
        self._registry: Any = None

    def prepare(self, context: Context) -> None:
        from millstream.registry.client import RegistryClient
        from millstream.testing import Broker as InProcessBroker  # its registry: the peer may have none

        if self._registry is None:
            self._registry = InProcessBroker(registry=True).start()
        with RegistryClient(self._registry.registry_url) as registry:
            schema_id = registry.register(f"{self.name}-value", json.dumps(VIEW)).schema_id
        _fill(context.broker, self.name, self.count, schema_id)

    def settings(self, broker: Broker, directory: str, table: TableKind = "delta") -> LoadSettings:
        """A load of the topic into a directory."""
        return LoadSettings(
            brokers=broker.bootstrap_servers,
            topics=(self.name,),
            to=f"{directory}/lake",
            checkpoint=f"{directory}/checkpoint",
            table=table,
            value_format="avro",
            registry=self._registry.registry_url,
            once=True,
        )


class PipelineLoad(_Filled):
    """Load Avro messages into a lake, everything that is there."""

    def __init__(self, count: int) -> None:
        super().__init__(count)
        self.name = "pipeline-load"
        self.title = "load of Avro messages into a lake"
        own = (Metric("delta", "rows/s", Bar(900_000, "at least", "value"), summary="max"), Metric("parquet", "rows/s", summary="max"))
        theirs = (Metric("Spark's own", "rows/s", summary="max"), Metric("ratio", "x", Bar(3, "at least", "value")))
        self.metrics = (*own, *theirs) if connector_jars() else own

    def prepare(self, context: Context) -> None:
        super().prepare(context)
        for _ in range(WARM_UP_QUERIES):
            for work in self._ways(context.broker).values():
                work()

    def run(self, context: Context) -> Values:
        rates = {name: rate(self.count, work) for name, work in self._ways(context.broker).items()}
        return {**rates, "ratio": rates["delta"] / rates["Spark's own"]} if "Spark's own" in rates else rates

    def _ways(self, broker: Broker) -> dict[str, Callable[[], None]]:
        ways: dict[str, Callable[[], None]] = {
            "delta": lambda: self._load(broker, "delta"),
            "parquet": lambda: self._load(broker, "parquet"),
        }
        return {**ways, "Spark's own": lambda: self._load_by_spark(broker)} if connector_jars() else ways

    def _load(self, broker: Broker, table: TableKind) -> None:
        with TemporaryDirectory(prefix="millstream-bench-") as directory:
            start_load(session(), self.settings(broker, directory, table)).awaitTermination()
            if table == "delta":
                from deltalake import DeltaTable

                self._check(DeltaTable(f"{directory}/lake/{self.name}").count())

    def _load_by_spark(self, broker: Broker) -> None:
        with TemporaryDirectory(prefix="millstream-bench-") as directory:
            rows = session().readStream.format("kafka").option("kafka.bootstrap.servers", broker.bootstrap_servers)
            rows = rows.option("subscribe", self.name).option("startingOffsets", "earliest")
            hours = rows.load().selectExpr("*", "to_date(timestamp) AS event_date", "hour(timestamp) AS event_hour")
            writer = hours.writeStream.format("parquet").option("checkpointLocation", f"{directory}/checkpoint")
            writer = writer.partitionBy("topic", "event_date", "event_hour").trigger(availableNow=True)
            writer.start(f"{directory}/lake").awaitTermination()

    def _check(self, found: int) -> None:
        if found != self.count:
            raise BenchError(f"{found} rows were loaded instead of {self.count}")


class PipelineShares(_Filled):
    """Where the time of a task goes: fetching and cutting into records, decoding Avro, writing files. One thread, without Spark."""

    def __init__(self, count: int) -> None:
        super().__init__(count)
        self.name = "pipeline-shares"
        self.title = "CPU of a load's task, seconds per million rows"
        self.metrics = tuple(Metric(name, "s/M") for name in ("fetch", "decode", "write"))

    def prepare(self, context: Context) -> None:
        super().prepare(context)
        self.run(context)  # what is compiled is compiled

    def run(self, context: Context) -> Values:
        with TemporaryDirectory(prefix="millstream-bench-") as directory:
            settings = self.settings(context.broker, directory)
            with TablePlanner(settings) as planner:
                [plan] = planner.plans()
            options = parse_read_options(settings.read_options())
            decoder, files = TopicDecoder(settings, [plan]), HourFiles(open_place(f"{directory}/lake"), plan.files)
            spent = dict.fromkeys(("fetch", "decode", "write"), 0.0)
            for partition in range(PARTITIONS):
                place = TopicPartition(self.name, partition)
                reader = PartitionReader(
                    cluster_for(options), options, OffsetRange(place, 0, self.count // PARTITIONS), wanted=WITH_KEY + WITH_VALUE
                ).read()
                before = thread_time()
                for records in reader:
                    fetched = thread_time()
                    [rows] = decoder.decode(records, place)
                    decoded = thread_time()
                    files.write(rows.rows, hours_of(rows.timestamps_us))
                    written = thread_time()
                    for name, start, end in (("fetch", before, fetched), ("decode", fetched, decoded), ("write", decoded, written)):
                        spent[name] += end - start
                    before = thread_time()
            before = thread_time()
            files.close()
            spent["write"] += thread_time() - before
            return {name: seconds / self.count * 1e6 for name, seconds in spent.items()}


def _fill(broker: Broker, topic: str, count: int, schema_id: int) -> None:
    """Write messages whose times go through six hours; enough different ones that no row group and no dictionary meets one twice."""
    create_topic(broker, topic, partitions=PARTITIONS)
    random = Random(1)
    schema = fastavro.parse_schema(VIEW)
    values = [_message(random, schema, schema_id, number) for number in range(DISTINCT_BATCHES * RECORDS_PER_BATCH)]
    per_partition = count // PARTITIONS // RECORDS_PER_BATCH
    start_ms = int(time() * 1000) - HOURS * 3_600_000
    with Cluster(broker.bootstrap_servers) as cluster:
        for number in range(per_partition):
            now_ms = start_ms + HOURS * 3_600_000 * number // per_partition
            for partition in range(PARTITIONS):
                first = (number * PARTITIONS + partition) % DISTINCT_BATCHES * RECORDS_PER_BATCH
                some = values[first : first + RECORDS_PER_BATCH]
                batch = encode_batch([Record(place, now_ms, None, value) for place, value in enumerate(some)])
                cluster.produce(BatchFor(topic, partition, batch), acks=1)


def _message(random: Random, schema: Any, schema_id: int, number: int) -> bytes:
    output = io.BytesIO()
    value = {
        "view_id": str(UUID(int=random.getrandbits(128))), "session_id": str(UUID(int=random.getrandbits(128))),
        "user": random.getrandbits(40), "page": f"/products/{int(random.paretovariate(1)) % 10_000}", "referrer": "https://example.com/",
        "country": "DE", "status": 200,
        "agent": "Mozilla/5.0 (X11; Linux x86_64) AppleWebKit/537.36", "seconds": random.random(), "at": 1_700_000_000_000 + number,
    }  # fmt: skip
    fastavro.schemaless_writer(output, schema, value)
    return b"\x00" + schema_id.to_bytes(4) + output.getvalue()
