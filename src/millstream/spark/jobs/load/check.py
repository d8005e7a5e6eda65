"""What can be known to be wrong with a load before Spark is started: brokers, topics, registry, columns, tables, checkpoint.

Spark takes seconds to start and says what it finds in pages. So everything that needs no Spark is asked first, and again when the query
starts, because `start_load` is also called by itself.
"""

from collections.abc import Sequence
from typing import Final

from millstream.client.cluster import Cluster
from millstream.errors import MillstreamError, UnknownTopicOrPartition, UsageError
from millstream.spark.jobs.load.brokers import open_cluster
from millstream.spark.jobs.load.identity import check_checkpoint
from millstream.spark.jobs.load.parquet_load import check_directory
from millstream.spark.jobs.load.settings import LoadSettings
from millstream.spark.jobs.load.table_plan import TablePlan, TablePlanner
from millstream.spark.jobs.load.tables import load_table
from millstream.spark.jobs.running.suggestion import did_you_mean

_TIMEOUT_S: Final = 10.0


def check_load(settings: LoadSettings) -> Sequence[TablePlan]:
    """Raises an error in one sentence if the load cannot run; the tables that it would write, which a load into Parquet has none of."""
    with TablePlanner(settings) as planner:
        _check_topics(settings)
        plans = planner.plans()
    if settings.table == "parquet":
        check_directory(settings)
        plans = ()
    elif settings.sql is None:
        # The columns of a query are known to Spark alone.
        for plan in plans:
            load_table(settings, plan.table).check(plan.files)
    check_checkpoint(settings)
    return plans


def _check_topics(settings: LoadSettings) -> None:
    with open_cluster(settings, timeout_s=_TIMEOUT_S) as cluster:
        for topic in settings.topics:
            try:
                cluster.topic(topic)
            except UnknownTopicOrPartition:
                raise UsageError(
                    f"there is no topic {topic!r} at {settings.brokers}.{did_you_mean(topic, _topics_at(cluster))} Create it with "
                    f"`millstream topic create {topic}`, or name another one."
                ) from None


def _topics_at(cluster: Cluster) -> Sequence[str]:
    """The topics that there are, for a suggestion; none where that may not be asked."""
    try:
        return [name for name, topic in cluster.refresh().topics.items() if not topic.error_code]
    except MillstreamError:
        return ()
