"""Results on a topic, in a table, or both: each with a key that is the result's own.

A topic is written by the sink of Millstream. A micro-batch whose query died before the sink remembered it is written again when the query
goes on: at least once. The results are the same then, because a replayed micro-batch has the same messages, and so are their keys: a
compacted topic keeps each once, and so does a reader that goes by the key.

A table gets each micro-batch exactly once. With both, the topic is written first and the table remembers that it was: what is in the table
is on the topic.
"""

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Final

from millstream.spark.jobs.description.job_settings import Job
from millstream.spark.jobs.streams.events import source_options, value_options
from millstream.spark.query_id import query_id_of

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery
    from pyspark.sql.streaming.readwriter import DataStreamWriter

_TIMES: Final = {"timestampFormat": "yyyy-MM-dd'T'HH:mm:ss.SSSSSS'Z'", "timeZone": "UTC"}
_STATE_PARTITIONS: Final = "spark.sql.shuffle.partitions"

ToMessages = Callable[["DataFrame"], "DataFrame"]
"""Makes messages (`as_messages`) of the rows of a micro-batch."""


def as_messages(results: "DataFrame", *, identity: Sequence[str], values: Sequence[str]) -> "DataFrame":
    """Results as messages: the columns `identity` as JSON are the key, the columns `values` the value."""
    from pyspark.sql import functions as f

    key = f.to_json(f.struct(*(f.col(f"`{name}`") for name in identity)), _TIMES)
    return results.select(key.alias("key"), f.struct(*(f.col(f"`{name}`") for name in values)).alias("value"))


def start_writing(messages: "DataFrame", job: Job, *, once: bool, writer: "type[BatchWriter]") -> "StreamingQuery":
    """Write them to the output of the job, as long as the query runs; `once` ends it when what is there now is processed."""
    if job.output.table:
        check_table(messages, job)
        return start_batches(messages, writer(job), job, once=once)
    return _start(messages.sparkSession, messages.writeStream.format("millstream").options(**_sink_options(job)), job, once=once)


def start_batches(rows: "DataFrame", writer: "BatchWriter", job: Job, *, once: bool) -> "StreamingQuery":
    """The same by a function that gets each micro-batch."""
    return _start(rows.sparkSession, rows.writeStream.foreachBatch(writer), job, once=once)


def _start(session: "SparkSession", writer: "DataStreamWriter", job: Job, *, once: bool) -> "StreamingQuery":
    _set_state_partitions(session, job)
    writer = writer.outputMode("append").queryName(job.name).option("checkpointLocation", job.checkpoint)
    return (writer.trigger(availableNow=True) if once else writer.trigger(processingTime=f"{job.trigger_ms} milliseconds")).start()


def check_table(messages: "DataFrame", job: Job) -> None:
    """Raise unless the results can go into the table: before any of them is on the topic."""
    from pyspark.sql.pandas.types import to_arrow_schema

    from millstream.lake.result_table import ResultTable

    table = ResultTable(job.output.table)
    table.check(to_arrow_schema(messages.select("value.*").schema, timezone="UTC"))
    if not _has_begun(messages, job.checkpoint):
        table.refuse_rows()


class BatchWriter:
    """Writes micro-batches to a table, to a topic, or to the topic and then the table."""

    def __init__(self, job: Job, to_messages: ToMessages | None = None) -> None:
        self._job = job
        self._to_messages = to_messages

    def __call__(self, rows: "DataFrame", batch_id: int) -> None:
        """What `foreachBatch` calls."""
        messages = rows if self._to_messages is None else self._to_messages(rows)
        if not self._job.output.table:
            self.write_topic(messages)
            return
        # The state of windows moves when the rows are computed: that has to happen once, no more and, also in a replay, no less.
        messages.persist()
        try:
            self._write_both(messages, query_id_of(rows), batch_id)
        finally:
            messages.unpersist()

    def write_topic(self, messages: "DataFrame") -> None:
        """Put results on the topic."""
        messages.write.format("millstream").mode("append").options(**_sink_options(self._job)).save()

    def write_table(self, rows: "pa.Table", query_id: str, batch_id: int) -> None:
        """Append results to the table, unless it has this micro-batch."""
        from millstream.lake.result_table import ResultTable

        ResultTable(self._job.output.table).append(rows, query_id, batch_id)

    def _write_both(self, messages: "DataFrame", query_id: str, batch_id: int) -> None:
        from millstream.lake.result_table import ResultTable

        rows = messages.select("value.*").toArrow()
        if not rows.num_rows or ResultTable(self._job.output.table).has(query_id, batch_id):
            return
        if self._job.output.topic:
            self.write_topic(messages)
        self.write_table(rows, query_id, batch_id)


def _set_state_partitions(session: "SparkSession", job: Job) -> None:
    """Into how many parts the state is cut, which is fixed by the first run: as the job says, or as the session, or the cores that there
    are. Spark's own default, 200, costs seconds per micro-batch."""
    if job.state_partitions:
        session.conf.set(_STATE_PARTITIONS, str(job.state_partitions))
    elif not session.sparkContext.getConf().contains(_STATE_PARTITIONS):
        session.conf.set(_STATE_PARTITIONS, str(session.sparkContext.defaultParallelism))


def _has_begun(messages: "DataFrame", checkpoint: str) -> bool:
    """Whether a query has used this checkpoint before."""
    context: Any = messages.sparkSession.sparkContext
    path = context._jvm.org.apache.hadoop.fs.Path(checkpoint.rstrip("/"), "metadata")
    return bool(path.getFileSystem(context._jsc.hadoopConfiguration()).exists(path))


def _sink_options(job: Job) -> dict[str, str]:
    return {
        **source_options(job),
        **value_options(job, job.output.format, ""),
        "topic": job.output.topic,
        "skipReplayedBatches": str(job.output.skip_replayed_batches and job.is_repeatable).lower(),
    }
