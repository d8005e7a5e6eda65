"""ProduceRequest (key 0), versions 3 to 13. Written by `codegen.messages`: do not edit."""

from typing import Final, NamedTuple
from uuid import UUID

from millstream.wire.schema import STRUCTURE, Field, Layout


class PartitionProduceData(NamedTuple):
    """A part of it."""

    index: int = 0  # type: ignore[assignment]  # hides a method of tuples that is not called
    records: bytes | None = b""


PARTITION_PRODUCE_DATA: Final = Layout(
    PartitionProduceData,
    (
        Field("index", "int32", 3, 13),
        Field("records", "records", 3, 13, nullable_from=3),
    ),
)


class TopicProduceData(NamedTuple):
    """A part of it."""

    topic_id: UUID | None = None
    name: str = ""
    partition_data: tuple[PartitionProduceData, ...] = ()


TOPIC_PRODUCE_DATA: Final = Layout(
    TopicProduceData,
    (
        Field("topic_id", "uuid", 13, 13, nullable_from=13),
        Field("name", "string", 3, 12),
        Field("partition_data", STRUCTURE, 3, 13, is_array=True, nested=PARTITION_PRODUCE_DATA),
    ),
)


class ProduceRequest(NamedTuple):
    """The message."""

    transactional_id: str | None = None
    acks: int = 0
    timeout_ms: int = 0
    topic_data: tuple[TopicProduceData, ...] = ()


LAYOUT: Final = Layout(
    ProduceRequest,
    (
        Field("transactional_id", "string", 3, 13, default=None, nullable_from=3),
        Field("acks", "int16", 3, 13),
        Field("timeout_ms", "timedelta_i32", 3, 13),
        Field("topic_data", STRUCTURE, 3, 13, is_array=True, nested=TOPIC_PRODUCE_DATA),
    ),
)
