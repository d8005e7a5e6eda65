"""`load`: topics into tables of a lake, continuously or as far as they are now, every message once.

Into Delta and Iceberg tables by files as rows (`files_as_rows`, `commit`), with SQL in between by a sink (`sql_load`); into
directories of Parquet by Spark's own sink (`parquet_load`).
"""

from typing import TYPE_CHECKING

from millstream.spark.jobs.load.audit import report_unpublished
from millstream.spark.jobs.load.check import check_load
from millstream.spark.jobs.load.commit import LoadCommitter
from millstream.spark.jobs.load.dead_letters import remove_leftovers
from millstream.spark.jobs.load.files_as_rows import TASKS, LoadSource, load_options
from millstream.spark.jobs.load.parquet_load import start_parquet_load, triggered
from millstream.spark.jobs.load.settings import LoadSettings
from millstream.spark.jobs.running.batch_progress import BatchCounts
from millstream.spark.jobs.running.progress import local_directory

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery


def start_load(
    session: "SparkSession",
    settings: LoadSettings,
    progress: BatchCounts | None = None,
    *,
    source: type[LoadSource] = LoadSource,
    committer: type[LoadCommitter] = LoadCommitter,
) -> "StreamingQuery":
    """Start a load; what can be known to be wrong is said before anything is read."""
    settings = settings.located()
    plans = check_load(settings)
    if settings.table == "parquet":
        return start_parquet_load(session, settings)
    if local_directory(settings.checkpoint) is not None:
        remove_leftovers(settings.checkpoint)
        # The result of a query is one table.
        report_unpublished(settings, {plan.topic: plan.topic if settings.sql is not None else plan.table for plan in plans})
    if settings.sql is not None:
        from millstream.spark.jobs.load.sql_load import start_sql_load  # few loads have a query

        return start_sql_load(session, settings)
    files = build_load(session, settings, source=source)
    writer = files.writeStream.foreachBatch(committer(settings, progress or BatchCounts()))
    return triggered(writer, settings).start()


def build_load(session: "SparkSession", settings: LoadSettings, *, source: type[LoadSource] = LoadSource) -> "DataFrame":
    """The stream of what tasks have written; it becomes rows of tables only by a `LoadCommitter`."""
    session.dataSource.register(source)
    options = settings.read_options() | load_options(settings) | {TASKS: str(session.sparkContext.defaultParallelism)}
    return session.readStream.format(source.name()).options(**options).load()
