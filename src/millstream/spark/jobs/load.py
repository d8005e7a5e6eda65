"""`load`: topics into tables of a lake, continuously or as far as they are now, every message once.

Into Delta tables by files as rows (`files_as_rows`, `load_commit`); into directories of Parquet by Spark's own sink (`parquet_load`).
"""

from typing import TYPE_CHECKING

from millstream.errors import UsageError
from millstream.lake.columns import widened
from millstream.lake.delta_table import DeltaWriter
from millstream.spark.jobs.batch_progress import BatchCounts
from millstream.spark.jobs.dead_letters import remove_leftovers
from millstream.spark.jobs.files_as_rows import JSON_TYPE, SETTINGS, TASKS, LoadSource
from millstream.spark.jobs.load_audit import report_unpublished
from millstream.spark.jobs.load_commit import LoadCommitter
from millstream.spark.jobs.load_identity import check_checkpoint
from millstream.spark.jobs.load_settings import LoadSettings
from millstream.spark.jobs.load_tables import table_address
from millstream.spark.jobs.parquet_load import start_parquet_load, triggered
from millstream.spark.jobs.progress import local_directory
from millstream.spark.jobs.table_plan import TablePlanner, type_text

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
    if settings.table == "parquet":
        return start_parquet_load(session, settings)
    json_type = _json_type(settings)
    with TablePlanner(settings, json_type) as planner:
        plans = planner.plans()
    for plan in plans:
        DeltaWriter(table_address(settings.to, plan.table)).check(plan.files)
    check_checkpoint(settings)
    if local_directory(settings.checkpoint) is not None:
        remove_leftovers(settings.checkpoint)
        report_unpublished(settings, {plan.topic: table_address(settings.to, plan.table) for plan in plans})
    files = build_load(session, settings, json_type=json_type, source=source)
    writer = files.writeStream.foreachBatch(committer(settings, progress or BatchCounts()))
    return triggered(writer, settings).start()


def build_load(
    session: "SparkSession", settings: LoadSettings, *, json_type: str | None = None, source: type[LoadSource] = LoadSource
) -> "DataFrame":
    """The stream of what tasks have written; it becomes rows of tables only by a `LoadCommitter`."""
    session.dataSource.register(source)
    options = {**settings.read_options(), SETTINGS: settings.document(), TASKS: str(session.sparkContext.defaultParallelism)}
    if json_type is not None:
        options[JSON_TYPE] = json_type
    return session.readStream.format(source.name()).options(**options).load()


def _json_type(settings: LoadSettings) -> str | None:
    """The type of JSON values: their columns are written in Spark's DDL."""
    if settings.value_schema is None:
        return None
    from pyspark.errors import PySparkException
    from pyspark.sql.pandas.types import to_arrow_type
    from pyspark.sql.types import StructType

    try:
        return type_text(widened(to_arrow_type(StructType.fromDDL(settings.value_schema), timezone="UTC")))
    except PySparkException as error:
        raise UsageError(
            f"value-schema {settings.value_schema!r} is not a list of columns like 'id BIGINT, name STRING': {error}"
        ) from None
