"""Results on a topic: each with a key that is the result's own, and written by the sink of Millstream.

A micro-batch whose query died before the sink remembered it is written again when the query goes on: at least once. The results are the
same then, because a replayed micro-batch has the same messages, and so are their keys: a compacted topic keeps each once, and so does a
reader that goes by the key.
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from millstream.spark.jobs.events import source_options, value_options
from millstream.spark.jobs.job_settings import Job

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
    """Write them to the topic of the job, as long as the query runs; `once` ends it when what is there now is processed."""
    writer = messages.writeStream.format("millstream").outputMode("append").queryName(job.name)
    writer = writer.options(**source_options(job), **value_options(job, job.output.format, ""), topic=job.output.topic)
    writer = writer.option("checkpointLocation", job.checkpoint)
    return (writer.trigger(availableNow=True) if once else writer.trigger(processingTime=f"{job.trigger_ms} milliseconds")).start()
