"""ConsumerGroupHeartbeatResponse (key 68), versions 0 to 1. Written by `codegen.messages`: do not edit."""

from typing import Final, NamedTuple
from uuid import UUID

from millstream.wire.schema import STRUCTURE, Field, Layout


class TopicPartitions(NamedTuple):
    """A part of it."""

    topic_id: UUID | None = None
    partitions: tuple[int, ...] = ()


TOPIC_PARTITIONS: Final = Layout(
    TopicPartitions,
    (
        Field("topic_id", "uuid", 0, 1, nullable_from=0),
        Field("partitions", "int32", 0, 1, default=(), is_array=True),
    ),
)


class Assignment(NamedTuple):
    """A part of it."""

    topic_partitions: tuple[TopicPartitions, ...] = ()


ASSIGNMENT: Final = Layout(
    Assignment,
    (Field("topic_partitions", STRUCTURE, 0, 1, is_array=True, nested=TOPIC_PARTITIONS),),
)


class ConsumerGroupHeartbeatResponse(NamedTuple):
    """The message."""

    throttle_time_ms: int = 0
    error_code: int = 0
    error_message: str | None = None
    member_id: str | None = None
    member_epoch: int = 0
    heartbeat_interval_ms: int = 0
    assignment: Assignment | None = None


LAYOUT: Final = Layout(
    ConsumerGroupHeartbeatResponse,
    (
        Field("throttle_time_ms", "timedelta_i32", 0, 1, default=0),
        Field("error_code", "error_code", 0, 1, default=0),
        Field("error_message", "string", 0, 1, default=None, nullable_from=0),
        Field("member_id", "string", 0, 1, default=None, nullable_from=0),
        Field("member_epoch", "int32", 0, 1),
        Field("heartbeat_interval_ms", "timedelta_i32", 0, 1),
        Field("assignment", STRUCTURE, 0, 1, default=None, nullable_from=0, nested=ASSIGNMENT),
    ),
)
