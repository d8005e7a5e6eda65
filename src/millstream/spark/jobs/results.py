"""Results on a topic, in a table, or both: each with a key that is the result's own.

A topic is written by the sink of Millstream. A micro-batch whose query died before the sink remembered it is written again when the query
goes on: at least once. The results are the same then, because a replayed micro-batch has the same messages, and so are their keys: a
compacted topic keeps each once, and so does a reader that goes by the key.

A table gets each micro-batch exactly once. With both, the topic is written first and the table remembers that it was: what is in the table
is on the topic.
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from millstream.spark.jobs.events import source_options, value_options
from millstream.spark.jobs.job_settings import Job
from millstream.spark.query_id import query_id_of

if TYPE_CHECKING:
    from pyspark.sql import DataFrame
    from pyspark.sql.streaming.query import StreamingQuery

_TIMES: Final = {"timestampFormat": "yyyy-MM-dd'T'HH:mm:ss.SSS'Z'", "timeZone": "UTC"}


def as_messages(results: "DataFrame", *, identity: Sequence[str], values: Sequence[str]) -> "DataFrame":
    """Results as messages: the columns `identity` as JSON are the key, the columns `values` the value."""
    from pyspark.sql import functions as f

    key = f.to_json(f.struct(*(f.col(f"`{name}`") for name in identity)), _TIMES)
    return results.select(key.alias("key"), f.struct(*(f.col(f"`{name}`") for name in values)).alias("value"))


def start_writing(messages: "DataFrame", job: Job, *, once: bool) -> "StreamingQuery":
    """Write them to the output of the job, as long as the query runs; `once` ends it when what is there now is processed."""
    writer = messages.writeStream.outputMode("append").queryName(job.name).option("checkpointLocation", job.checkpoint)
    writer = writer.foreachBatch(_TableWriter(job)) if job.output.table else writer.format("millstream").options(**_sink_options(job))
    return (writer.trigger(availableNow=True) if once else writer.trigger(processingTime=f"{job.trigger_ms} milliseconds")).start()


class _TableWriter:
    """Writes micro-batches to a table, and to a topic before that if there is one."""

    def __init__(self, job: Job) -> None:
        from millstream.lake.result_table import ResultTable

        self._job = job
        self._table = ResultTable(job.output.table)
        self._table.check()

    def __call__(self, messages: "DataFrame", batch_id: int) -> None:
        """What `foreachBatch` calls."""
        query_id = query_id_of(messages)
        # The state of windows moves when the rows are computed: that has to happen once, no more and, also in a replay, no less.
        messages.persist()
        try:
            rows = messages.select("value.*").toArrow()
            if not rows.num_rows or self._table.has(query_id, batch_id):
                return
            if self._job.output.topic:
                messages.write.format("millstream").mode("append").options(**_sink_options(self._job)).save()
            self._table.append(rows, query_id, batch_id)
        finally:
            messages.unpersist()


def _sink_options(job: Job) -> dict[str, str]:
    return {
        **source_options(job),
        **value_options(job, job.output.format, ""),
        "topic": job.output.topic,
        "skipReplayedBatches": str(job.output.skip_replayed_batches and job.is_repeatable).lower(),
    }
