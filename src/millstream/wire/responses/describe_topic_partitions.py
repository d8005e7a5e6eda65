"""DescribeTopicPartitionsResponse (key 75), versions 0 to 0. Written by `codegen.messages`: do not edit."""

from typing import Final, NamedTuple
from uuid import UUID

from millstream.wire.schema import STRUCTURE, Field, Layout


class DescribeTopicPartitionsResponsePartition(NamedTuple):
    """A part of it."""

    error_code: int = 0
    partition_index: int = 0
    leader_id: int = 0
    leader_epoch: int = -1
    replica_nodes: tuple[int, ...] = ()
    isr_nodes: tuple[int, ...] = ()
    eligible_leader_replicas: tuple[int, ...] | None = None
    last_known_elr: tuple[int, ...] | None = None
    offline_replicas: tuple[int, ...] = ()


DESCRIBE_TOPIC_PARTITIONS_RESPONSE_PARTITION: Final = Layout(
    DescribeTopicPartitionsResponsePartition,
    (
        Field("error_code", "error_code", 0, 0, default=0),
        Field("partition_index", "int32", 0, 0),
        Field("leader_id", "int32", 0, 0),
        Field("leader_epoch", "int32", 0, 0, default=-1),
        Field("replica_nodes", "int32", 0, 0, default=(), is_array=True),
        Field("isr_nodes", "int32", 0, 0, default=(), is_array=True),
        Field("eligible_leader_replicas", "int32", 0, 0, default=None, is_array=True, nullable_from=0),
        Field("last_known_elr", "int32", 0, 0, default=None, is_array=True, nullable_from=0),
        Field("offline_replicas", "int32", 0, 0, default=(), is_array=True),
    ),
)


class DescribeTopicPartitionsResponseTopic(NamedTuple):
    """A part of it."""

    error_code: int = 0
    name: str | None = ""
    topic_id: UUID | None = None
    is_internal: bool = False
    partitions: tuple[DescribeTopicPartitionsResponsePartition, ...] = ()
    topic_authorized_operations: int = -2147483648


DESCRIBE_TOPIC_PARTITIONS_RESPONSE_TOPIC: Final = Layout(
    DescribeTopicPartitionsResponseTopic,
    (
        Field("error_code", "error_code", 0, 0, default=0),
        Field("name", "string", 0, 0, nullable_from=0),
        Field("topic_id", "uuid", 0, 0, nullable_from=0),
        Field("is_internal", "bool", 0, 0, default=False),
        Field("partitions", STRUCTURE, 0, 0, is_array=True, nested=DESCRIBE_TOPIC_PARTITIONS_RESPONSE_PARTITION),
        Field("topic_authorized_operations", "int32", 0, 0, default=-2147483648),
    ),
)


class Cursor(NamedTuple):
    """A part of it."""

    topic_name: str = ""
    partition_index: int = 0


CURSOR: Final = Layout(
    Cursor,
    (
        Field("topic_name", "string", 0, 0),
        Field("partition_index", "int32", 0, 0),
    ),
)


class DescribeTopicPartitionsResponse(NamedTuple):
    """The message."""

    throttle_time_ms: int = 0
    topics: tuple[DescribeTopicPartitionsResponseTopic, ...] = ()
    next_cursor: Cursor | None = None


LAYOUT: Final = Layout(
    DescribeTopicPartitionsResponse,
    (
        Field("throttle_time_ms", "timedelta_i32", 0, 0, default=0),
        Field("topics", STRUCTURE, 0, 0, is_array=True, nested=DESCRIBE_TOPIC_PARTITIONS_RESPONSE_TOPIC),
        Field("next_cursor", STRUCTURE, 0, 0, default=None, nullable_from=0, nested=CURSOR),
    ),
)
