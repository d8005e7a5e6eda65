"""Loads into a lake: ours into Delta tables, Spark's own Parquet sink behind our source, and Spark's own connector with Spark's sink.

Each round loads all messages with `--once` into a new place; the rate is of the whole run, planning included, after warm-up runs over a
quarter of them. Spark's own connector decodes the same Avro, with `from_avro` behind the five bytes of the schema's id (it knows no
registry: the schema is given), and writes the same columns into the same directories. What it does when it writes the bytes as they are,
which is less work than any other line does, is shown beside it.
"""

import json
from collections.abc import Callable
from functools import cache
from tempfile import TemporaryDirectory
from time import monotonic, thread_time
from typing import TYPE_CHECKING, Final

from bench.case import Bar, BenchError, Case, Context, Metric, Values
from bench.lake_topic import VIEW, fill_with_views, register_views
from bench.peers.broker import Broker
from bench.spark_read import rate
from bench.spark_session import avro_jars, connector_jars, session
from millstream.arrow.kernels.record_kernel import WITH_KEY, WITH_VALUE
from millstream.arrow.partition_reader import PartitionReader
from millstream.lake.hour_files import HourFiles, hours_of
from millstream.lake.place import open_place
from millstream.spark.jobs.load.load import start_load
from millstream.spark.jobs.load.settings import LoadSettings, TableKind
from millstream.spark.jobs.load.table_plan import TablePlanner
from millstream.spark.jobs.load.table_rows import TopicDecoder
from millstream.spark.source.offset_ranges import OffsetRange
from millstream.spark.source.read_options import parse_read_options
from millstream.spark.worker_connections import cluster_for
from millstream.topic_partition import TopicPartition

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

PARTITIONS: Final = 4
WARM_UPS: Final = 2
_OWN, _BYTES = "Spark's own", "Spark's own, bytes as they are"


@cache
def registry_url() -> str:
    """A registry of this process, for all cases: the peer may have none."""
    from millstream.testing import Broker as InProcessBroker

    return InProcessBroker(registry=True).start().registry_url


class LakeCase(Case):
    """What the cases share: topics of Avro messages, and a registry that knows their schemas."""

    def __init__(self, count: int) -> None:
        self.count = count

    def fill(self, context: Context, topic: str, count: int, *, partitions: int = PARTITIONS, versions: int = 1) -> int:
        """Make a topic; how many messages it has."""
        before = monotonic()
        schema_ids = register_views(registry_url(), topic, versions=versions)
        made = fill_with_views(context.broker, topic, count, schema_ids, partitions=partitions)
        context.say(f"{self.name}: wrote {made:,} messages to {topic} in {monotonic() - before:.1f} s")
        return made

    def settings(self, broker: Broker, topic: str, directory: str, *, table: TableKind = "delta", once: bool = True) -> LoadSettings:
        """A load of a topic into a directory; one that is not `once` has a trigger of a second."""
        return LoadSettings(
            brokers=broker.bootstrap_servers,
            topics=(topic,),
            to=f"{directory}/lake",
            checkpoint=f"{directory}/checkpoint",
            table=table,
            value_format="avro",
            registry=registry_url(),
            once=once,
            every="1 second",
        )

    def load(self, broker: Broker, topic: str, count: int, table: TableKind = "delta") -> None:
        """Load all of a topic into a new place; every row has to be there."""
        with TemporaryDirectory(prefix="millstream-bench-") as directory:
            query = start_load(session(), self.settings(broker, topic, directory, table=table))
            query.awaitTermination()
            if table == "parquet":
                check(sum(event.numInputRows for event in query.recentProgress), count)
                return
            from deltalake import DeltaTable

            check(DeltaTable(f"{directory}/lake/{topic}").count(), count)


def check(found: int, expected: int) -> None:
    """Whether all rows were loaded."""
    if found != expected:
        raise BenchError(f"{found} rows were loaded instead of {expected}")


class PipelineLoad(LakeCase):
    """Load Avro messages into a lake, everything that is there."""

    def __init__(self, count: int) -> None:
        super().__init__(count)
        self.name = "pipeline-load"
        self.title = "load of Avro messages into a lake"
        self.metrics = (
            Metric("delta", "rows/s", Bar(900_000, "at least", "value"), summary="max"),
            Metric("parquet", "rows/s", summary="max"),
            *(Metric(name, "rows/s", summary="max") for name in self._sparks_own()),
            *([Metric("ratio", "x", Bar(3, "at least", "value"))] if _OWN in self._sparks_own() else ()),
        )

    def prepare(self, context: Context) -> None:
        warm = self.fill(context, f"{self.name}-warm", self.count // 4)
        self.count = self.fill(context, self.name, self.count)
        for number in range(WARM_UPS):
            for name, work in self._ways(context.broker, f"{self.name}-warm", warm).items():
                context.say(f"{self.name}: warm-up {number + 1}, {name}: {rate(warm, work):,.0f} rows/s")

    def run(self, context: Context) -> Values:
        rates = {}
        for name, work in self._ways(context.broker, self.name, self.count).items():
            rates[name] = rate(self.count, work)
            context.say(f"{self.name}: {name}: {rates[name]:,.0f} rows/s")
        return {**rates, "ratio": rates["delta"] / rates[_OWN]} if _OWN in rates else rates

    def _ways(self, broker: Broker, topic: str, count: int) -> dict[str, Callable[[], None]]:
        return {
            "delta": lambda: self.load(broker, topic, count),
            "parquet": lambda: self.load(broker, topic, count, "parquet"),
            **{name: lambda name=name: self._load_by_spark(broker, topic, count, name) for name in self._sparks_own()},  # type: ignore[misc]
        }

    @staticmethod
    def _sparks_own() -> list[str]:
        return [*([_OWN] if connector_jars() and avro_jars() else ()), *([_BYTES] if connector_jars() else ())]

    def _load_by_spark(self, broker: Broker, topic: str, count: int, way: str) -> None:
        with TemporaryDirectory(prefix="millstream-bench-") as directory:
            rows = session().readStream.format("kafka").option("kafka.bootstrap.servers", broker.bootstrap_servers)
            rows = rows.option("subscribe", topic).option("startingOffsets", "earliest")
            hours = _typed(rows.load()) if way == _OWN else rows.load()
            hours = hours.selectExpr("*", "to_date(timestamp) AS event_date", "hour(timestamp) AS event_hour")
            writer = hours.writeStream.format("parquet").option("checkpointLocation", f"{directory}/checkpoint")
            writer = writer.partitionBy("topic", "event_date", "event_hour").trigger(availableNow=True)
            query = writer.start(f"{directory}/lake")
            query.awaitTermination()
            check(sum(event.numInputRows for event in query.recentProgress), count)


def _typed(rows: "DataFrame") -> "DataFrame":
    """The columns of a load, by Spark's own means."""
    from pyspark.sql.avro.functions import from_avro
    from pyspark.sql.functions import expr

    decoded = rows.select(from_avro(expr("substring(value, 6)"), json.dumps(VIEW)).alias("view"), "*")
    return decoded.selectExpr("view.*", "key", "partition", "offset", "timestamp", "topic")


class PipelineShares(LakeCase):
    """Where the time of a task goes: fetching and cutting into records, decoding Avro, writing files. One thread, without Spark."""

    def __init__(self, count: int) -> None:
        super().__init__(count)
        self.name = "pipeline-shares"
        self.title = "CPU of a load's task, seconds per million rows"
        self.metrics = tuple(Metric(name, "s/M") for name in ("fetch", "decode", "write"))

    def prepare(self, context: Context) -> None:
        self.count = self.fill(context, self.name, self.count)
        self.run(context)  # what is compiled is compiled

    def run(self, context: Context) -> Values:
        with TemporaryDirectory(prefix="millstream-bench-") as directory:
            settings = self.settings(context.broker, self.name, directory)
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
