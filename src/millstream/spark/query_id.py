"""Which streaming query this is, by Spark's own name of the property that says it."""

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

QUERY_ID: Final = "sql.streaming.queryId"


def query_id_of(rows: "DataFrame") -> str:
    """The query whose micro-batch `foreachBatch` has just been given."""
    found = rows.sparkSession.sparkContext.getLocalProperty(QUERY_ID)
    assert found is not None, "Spark says which query this is"
    return found
