"""The table that a stream is joined with, as it is now: it may change while the job runs.

It is looked at once per `refresh`, between two micro-batches, and read again if it has changed: a Delta table has a version, a topic has
ends, files have names, lengths and times. What was read is kept by Spark, so that a micro-batch does not depend on files that are being
replaced. A table with other columns than at the start would make other results, and ends the job.
"""

import json
from collections.abc import Callable
from time import monotonic
from typing import TYPE_CHECKING, Any

from millstream.client.cluster import Cluster
from millstream.client.security.client_security import ClientSecurity
from millstream.errors import UsageError
from millstream.offset import LATEST
from millstream.spark.jobs.description.join_job import JoinJob, JoinTable
from millstream.spark.jobs.streams.events import flatten, source_options, value_options
from millstream.topic_partition import TopicPartition

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


class KeptTable:
    """The rows of a table, one per key of the join."""

    def __init__(self, session: "SparkSession", job: JoinJob, table: JoinTable, clock: Callable[[], float] = monotonic) -> None:
        self._session = session
        self._job = job
        self._table = table
        self._clock = clock
        self._looked_at = clock()
        self._version = self._present_version()
        self._rows = self._read()

    def rows(self) -> "DataFrame":
        """The table as it was at most one `refresh` ago."""
        now = self._clock()
        if (now - self._looked_at) * 1000 >= self._table.refresh_ms:
            self._looked_at = now
            version = self._present_version()
            if version != self._version:
                self._replace(self._read())
                self._version = version
        return self._rows

    def _replace(self, rows: "DataFrame") -> None:
        if rows.schema != self._rows.schema:
            raise UsageError(
                f"[table]: {self._table.name} has other columns now: {rows.schema.simpleString()} instead of "
                f"{self._rows.schema.simpleString()}. Start the job again with a checkpoint and an output of its own"
            )
        self._rows.unpersist()
        self._rows = rows

    def _read(self) -> "DataFrame":
        rows = read_table_once(self._session, self._job, self._table).persist()
        check_keys(rows, self._job, self._table)
        return rows

    def _present_version(self) -> object:
        if self._table.topic:
            security = ClientSecurity.of(self._job.kafka)
            with Cluster(self._job.brokers, client_id="millstream-pipeline", security=security) as cluster:
                places = [TopicPartition(self._table.topic, number) for number in cluster.topic(self._table.topic).partitions]
                return {place: found.offset for place, found in cluster.offsets(dict.fromkeys(places, LATEST)).items()}
        if self._table.format == "delta":
            from deltalake import DeltaTable

            return DeltaTable(self._table.path).version()
        return _files_of(self._session, self._table.path)


def read_table_once(session: "SparkSession", job: JoinJob, table: JoinTable) -> "DataFrame":
    """The rows of a table as they are now; of a topic, what it says last about each message key."""
    rows = _latest_of_topic(session, job, table) if table.topic else _files(session, table)
    missing = [column for column in job.join.on if column not in rows.columns]
    if missing:
        raise UsageError(f"[join] on: the table {table.name} has no column {missing[0]!r}. It has: {', '.join(rows.columns)}")
    return rows


def check_keys(rows: "DataFrame", job: JoinJob, table: JoinTable) -> None:
    """Raise if a key has several rows: the result would be several messages of one key."""
    repeated = rows.groupBy(*job.join.on).count().where("count > 1").first()
    if repeated is not None:
        key = ", ".join(f"{column} = {repeated[column]!r}" for column in job.join.on)
        raise UsageError(f"[table]: {table.name} has {repeated['count']} rows for {key}: one row per key can be joined")


def _files(session: "SparkSession", table: JoinTable) -> "DataFrame":
    from pyspark.errors import AnalysisException

    if table.format == "delta":
        return _delta_files(session, table.path)
    reader: Any = session.read
    if table.schema:
        reader = reader.schema(table.schema)
    if table.format == "csv":
        reader = reader.option("header", value=True).option("mode", "FAILFAST")
    try:
        rows: DataFrame = reader.format(table.format).load(table.path)
    except AnalysisException as error:
        raise UsageError(f"[table] path: {table.path} cannot be read as {table.format}: {str(error).splitlines()[0]}") from None
    return rows


def _delta_files(session: "SparkSession", path: str) -> "DataFrame":
    """Spark reads the files of a Delta table; for its log it would need a jar. The columns are the table's: an old file may lack some."""
    from deltalake import DeltaTable
    from deltalake.exceptions import DeltaError
    from pyspark.sql.types import StructType

    try:
        table = DeltaTable(path)
        files, columns = table.file_uris(), StructType.fromJson(json.loads(table.schema().to_json()))
    except DeltaError as error:
        raise UsageError(f"[table] path: {path} cannot be read as a Delta table: {error}") from None
    if not files:
        raise UsageError(f"[table] path: the Delta table {path} is empty: there is nothing to join with")
    return session.read.schema(columns).option("basePath", path).parquet(*files)


def _latest_of_topic(session: "SparkSession", job: JoinJob, table: JoinTable) -> "DataFrame":
    from pyspark.sql import functions as f

    options = {**source_options(job), **value_options(job, table.format, table.schema), "subscribe": table.topic}
    rows = session.read.format("millstream").options(**options, columns="key,value,partition,offset,timestamp").load()
    # In a partition the last word is what was written last, whatever its time, as for compaction. A key is in one partition, unless the
    # topic got more of them: then it is the newest of these. A tombstone takes the key away.
    by_partition = rows.where("key IS NOT NULL").groupBy("key", "partition")
    last = by_partition.agg(f.max_by(f.struct("value", "timestamp"), "offset").alias("last"))
    newest = last.groupBy("key").agg(f.max_by("last", f.struct("last.timestamp", "partition")).alias("newest"))
    return flatten(newest.select(f.col("newest.value").alias("value")), {})


def _files_of(session: "SparkSession", path: str) -> list[tuple[str, int, int]]:
    """Names, lengths and times of all files below a path."""
    context: Any = session.sparkContext
    root = context._jvm.org.apache.hadoop.fs.Path(path)
    files = root.getFileSystem(context._jsc.hadoopConfiguration()).listFiles(root, True)
    found = []
    while files.hasNext():
        one = files.next()
        found.append((str(one.getPath()), int(one.getLen()), int(one.getModificationTime())))
    return sorted(found)
