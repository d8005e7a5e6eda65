"""Groups whose committed offsets are no offsets: in them Spark's sink remembers which micro-batch of a query it has written last.

What stands there is the number of a micro-batch, so it has no lag. Whoever shows lags leaves these groups out (`is_batch_memory`).
"""

from typing import Final

_PREFIX: Final = "millstream-sink-"


def batch_memory_of(query_id: str, topic: str | None) -> str:
    """The group that remembers what a query has written to a topic, or (None) to those that its rows name."""
    return f"{_PREFIX}{query_id}" if topic is None else f"{_PREFIX}{query_id}-{topic}"


def is_batch_memory(group: str) -> bool:
    """Whether what the group has committed are numbers of micro-batches."""
    return group.startswith(_PREFIX)
