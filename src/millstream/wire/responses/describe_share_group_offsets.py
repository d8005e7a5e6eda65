"""DescribeShareGroupOffsetsResponse (key 90), versions 0 to 1. Written by `codegen.messages`: do not edit."""

from typing import Final, NamedTuple
from uuid import UUID

from millstream.wire.schema import STRUCTURE, Field, Layout


class DescribeShareGroupOffsetsResponsePartition(NamedTuple):
    """A part of it."""

    partition_index: int = 0
    start_offset: int = 0
    leader_epoch: int = 0
    lag: int = -1
    error_code: int = 0
    error_message: str | None = None


DESCRIBE_SHARE_GROUP_OFFSETS_RESPONSE_PARTITION: Final = Layout(
    DescribeShareGroupOffsetsResponsePartition,
    (
        Field("partition_index", "int32", 0, 1),
        Field("start_offset", "int64", 0, 1),
        Field("leader_epoch", "int32", 0, 1),
        Field("lag", "int64", 1, 1, default=-1),
        Field("error_code", "error_code", 0, 1, default=0),
        Field("error_message", "string", 0, 1, default=None, nullable_from=0),
    ),
)


class DescribeShareGroupOffsetsResponseTopic(NamedTuple):
    """A part of it."""

    topic_name: str = ""
    topic_id: UUID | None = None
    partitions: tuple[DescribeShareGroupOffsetsResponsePartition, ...] = ()


DESCRIBE_SHARE_GROUP_OFFSETS_RESPONSE_TOPIC: Final = Layout(
    DescribeShareGroupOffsetsResponseTopic,
    (
        Field("topic_name", "string", 0, 1),
        Field("topic_id", "uuid", 0, 1, nullable_from=0),
        Field("partitions", STRUCTURE, 0, 1, is_array=True, nested=DESCRIBE_SHARE_GROUP_OFFSETS_RESPONSE_PARTITION),
    ),
)


class DescribeShareGroupOffsetsResponseGroup(NamedTuple):
    """A part of it."""

    group_id: str = ""
    topics: tuple[DescribeShareGroupOffsetsResponseTopic, ...] = ()
    error_code: int = 0
    error_message: str | None = None


DESCRIBE_SHARE_GROUP_OFFSETS_RESPONSE_GROUP: Final = Layout(
    DescribeShareGroupOffsetsResponseGroup,
    (
        Field("group_id", "string", 0, 1),
        Field("topics", STRUCTURE, 0, 1, is_array=True, nested=DESCRIBE_SHARE_GROUP_OFFSETS_RESPONSE_TOPIC),
        Field("error_code", "error_code", 0, 1, default=0),
        Field("error_message", "string", 0, 1, default=None, nullable_from=0),
    ),
)


class DescribeShareGroupOffsetsResponse(NamedTuple):
    """The message."""

    throttle_time_ms: int = 0
    groups: tuple[DescribeShareGroupOffsetsResponseGroup, ...] = ()


LAYOUT: Final = Layout(
    DescribeShareGroupOffsetsResponse,
    (
        Field("throttle_time_ms", "timedelta_i32", 0, 1, default=0),
        Field("groups", STRUCTURE, 0, 1, is_array=True, nested=DESCRIBE_SHARE_GROUP_OFFSETS_RESPONSE_GROUP),
    ),
)
