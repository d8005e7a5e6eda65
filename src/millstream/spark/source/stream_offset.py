"""What Spark keeps of a stream: how far each micro-batch goes, as JSON, and with the first one where it begins.

    {"not begun": {}}                                                           the start of the first micro-batch, whenever Spark asks
    {"orders": {"0": 15}, "began at": {}, "orders began at": {"0": 10}}         the end of the first micro-batch
    {"orders": {"0": 20}}                                                       the end of any later one

Spark writes the end of a micro-batch into its checkpoint before it runs it, and the end of one is the start of the next. Only the start of
the first it asks of the source: more than once, and again after a restart, and "latest" is another offset each time. So the answer to that
question is always the same, the beginning is looked up once, together with the first end, and travels inside it.

No topic has a space in its name. Every entry is a topic with partitions and offsets in its form, for those who read Spark's progress.
"""

from collections.abc import Mapping
from typing import Any, Final, NamedTuple

from millstream.spark.positions import Offsets, format_offsets, read_offsets
from millstream.topic_partition import TopicPartition

SparkOffset = dict[str, Any]

NOT_BEGUN: Final[SparkOffset] = {"not begun": {}}
_BEGAN_AT: Final = "began at"
_OF_TOPIC: Final = f" {_BEGAN_AT}"


class StreamOffset(NamedTuple):
    """The offset that comes next in each partition; `began_at`, of the end of the first micro-batch, has where that begins."""

    offsets: dict[TopicPartition, int]
    began_at: dict[TopicPartition, int] | None = None


def format_stream_offset(offsets: Offsets, *, began_at: Offsets | None = None) -> SparkOffset:
    """An offset as Spark keeps it."""
    told: SparkOffset = format_offsets(offsets)
    if began_at is not None:
        told[_BEGAN_AT] = {}
        told |= {topic + _OF_TOPIC: numbers for topic, numbers in format_offsets(began_at).items()}
    return told


def read_stream_offset(told: Mapping[str, Mapping[str, int]]) -> StreamOffset:
    """What `format_stream_offset` wrote, perhaps in another run of the query; of `NOT_BEGUN` nothing is known."""
    offsets = read_offsets({name: numbers for name, numbers in told.items() if " " not in name})
    if _BEGAN_AT not in told:
        return StreamOffset(offsets)
    began_at = {name.removesuffix(_OF_TOPIC): numbers for name, numbers in told.items() if name.endswith(_OF_TOPIC)}
    return StreamOffset(offsets, read_offsets(began_at))
