"""A load with a query between topic and table: `SELECT ... FROM messages WHERE ...` by Spark, its result by `table_sink`.

`messages` has the columns that the table of a plain load would have, and `topic`. One row in may be none, one or several rows out, but
nothing is added up over messages: that is what `windows` is for, which knows when a result is final.

The offsets in a commit are those that the query has read, so that nothing is read twice and nothing left out; rows that it leaves out are
nowhere. A message that cannot be read ends the load.
"""

import json
from typing import TYPE_CHECKING

from millstream.errors import UsageError
from millstream.spark.jobs.load.brokers import open_cluster
from millstream.spark.jobs.load.files_as_rows import load_options
from millstream.spark.jobs.load.parquet_load import message_rows, triggered
from millstream.spark.jobs.load.result_rows import result_columns
from millstream.spark.jobs.load.settings import LoadSettings
from millstream.spark.jobs.load.table_sink import FORMAT, TableSink
from millstream.spark.jobs.load.tables import load_table
from millstream.spark.jobs.running.failure import sentence_of

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

VIEW = "messages"
_SOURCE = "StreamingRelation"
"""What Spark calls a stream in the plan of a query."""
_LIMIT = "~GlobalLimit"
"""And a limit of one: Spark keeps how many rows it has let through, for ever."""


def start_sql_load(session: "SparkSession", settings: LoadSettings) -> "StreamingQuery":
    """Start the load; a query that cannot be loaded is said in a sentence."""
    from pyspark.errors import AnalysisException

    session.dataSource.register(TableSink)
    try:
        rows = build_sql_load(session, settings)
        load_table(settings, settings.topics[0]).check(result_columns(rows.schema, settings.event_time))
        writer = rows.writeStream.format(FORMAT).options(**load_options(settings)).outputMode("append")
        return triggered(writer, settings).start()
    except AnalysisException as error:
        raise UsageError(f"sql: {sentence_of(str(error))}") from None


def build_sql_load(session: "SparkSession", settings: LoadSettings) -> "DataFrame":
    """The rows that the query makes of the messages."""
    assert settings.sql is not None, "the settings were checked"
    options = settings.read_options() | {"startingOffsets": _starting(settings)}
    message_rows(session, settings, options).createOrReplaceTempView(VIEW)
    try:
        rows = session.sql(settings.sql)
    finally:
        # It is part of the plan now, and the name is free for the next load of the session.
        session.catalog.dropTempView(VIEW)
    if not rows.isStreaming:
        raise UsageError(f"sql: the query does not read {VIEW}, so it has no end: {settings.sql}")
    _check_plan(rows._jdf.queryExecution().analyzed().toString())
    return rows


def _check_plan(plan: str) -> None:
    # Each of them would be a source of its own, with offsets of its own, and a table has one for each partition.
    times = plan.count(_SOURCE)
    if times > 1:
        raise UsageError(f"sql: the query reads {VIEW} {times} times, as a join or a union of it with itself does: it may do so once.")
    if _LIMIT in plan:
        raise UsageError(
            "sql: LIMIT counts over all runs of a load together, and after so many rows nothing more would come: leave it out."
        )


def _starting(settings: LoadSettings) -> str:
    """Where a new checkpoint begins: where the table ends, and where the options say in partitions that it does not have."""
    [topic] = settings.topics
    with open_cluster(settings) as cluster:
        partitions = sorted(cluster.topic(topic).partitions)
    known = load_table(settings, topic).positions(topic, partitions)
    if not known:
        return settings.starting
    edge = -2 if settings.starting == "earliest" else -1
    return json.dumps({topic: {str(partition): known.get(partition, edge) for partition in partitions}})
