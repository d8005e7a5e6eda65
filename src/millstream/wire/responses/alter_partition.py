"""AlterPartitionResponse (key 56), versions 2 to 3. Written by `codegen.messages`: do not edit."""

from typing import Final, NamedTuple
from uuid import UUID

from millstream.wire.schema import STRUCTURE, Field, Layout


class PartitionData(NamedTuple):
    """A part of it."""

    partition_index: int = 0
    error_code: int = 0
    leader_id: int = 0
    leader_epoch: int = 0
    isr: tuple[int, ...] = ()
    leader_recovery_state: int = 0
    partition_epoch: int = 0


PARTITION_DATA: Final = Layout(
    PartitionData,
    (
        Field("partition_index", "int32", 2, 3),
        Field("error_code", "error_code", 2, 3, default=0),
        Field("leader_id", "int32", 2, 3),
        Field("leader_epoch", "int32", 2, 3),
        Field("isr", "int32", 2, 3, default=(), is_array=True),
        Field("leader_recovery_state", "int8", 2, 3, default=0),
        Field("partition_epoch", "int32", 2, 3),
    ),
)


class TopicData(NamedTuple):
    """A part of it."""

    topic_id: UUID | None = None
    partitions: tuple[PartitionData, ...] = ()


TOPIC_DATA: Final = Layout(
    TopicData,
    (
        Field("topic_id", "uuid", 2, 3, nullable_from=2),
        Field("partitions", STRUCTURE, 2, 3, is_array=True, nested=PARTITION_DATA),
    ),
)


class AlterPartitionResponse(NamedTuple):
    """The message."""

    throttle_time_ms: int = 0
    error_code: int = 0
    topics: tuple[TopicData, ...] = ()


LAYOUT: Final = Layout(
    AlterPartitionResponse,
    (
        Field("throttle_time_ms", "timedelta_i32", 2, 3, default=0),
        Field("error_code", "error_code", 2, 3, default=0),
        Field("topics", STRUCTURE, 2, 3, is_array=True, nested=TOPIC_DATA),
    ),
)
