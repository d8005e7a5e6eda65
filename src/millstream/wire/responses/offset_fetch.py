"""OffsetFetchResponse (key 9), versions 1 to 10. Written by `codegen.messages`: do not edit."""

from typing import Final, NamedTuple
from uuid import UUID

from millstream.wire.schema import STRUCTURE, Field, Layout


class OffsetFetchResponsePartitions(NamedTuple):
    """A part of it."""

    partition_index: int = 0
    committed_offset: int = 0
    committed_leader_epoch: int = -1
    metadata: str | None = ""
    error_code: int = 0


OFFSET_FETCH_RESPONSE_PARTITIONS: Final = Layout(
    OffsetFetchResponsePartitions,
    (
        Field("partition_index", "int32", 8, 10),
        Field("committed_offset", "int64", 8, 10),
        Field("committed_leader_epoch", "int32", 8, 10, default=-1),
        Field("metadata", "string", 8, 10, nullable_from=8),
        Field("error_code", "error_code", 8, 10, default=0),
    ),
)


class OffsetFetchResponseTopics(NamedTuple):
    """A part of it."""

    topic_id: UUID | None = None
    name: str = ""
    partitions: tuple[OffsetFetchResponsePartitions, ...] = ()


OFFSET_FETCH_RESPONSE_TOPICS: Final = Layout(
    OffsetFetchResponseTopics,
    (
        Field("topic_id", "uuid", 10, 10, nullable_from=10),
        Field("name", "string", 8, 9),
        Field("partitions", STRUCTURE, 8, 10, is_array=True, nested=OFFSET_FETCH_RESPONSE_PARTITIONS),
    ),
)


class OffsetFetchResponseGroup(NamedTuple):
    """A part of it."""

    group_id: str = ""
    topics: tuple[OffsetFetchResponseTopics, ...] = ()
    error_code: int = 0


OFFSET_FETCH_RESPONSE_GROUP: Final = Layout(
    OffsetFetchResponseGroup,
    (
        Field("group_id", "string", 8, 10),
        Field("topics", STRUCTURE, 8, 10, is_array=True, nested=OFFSET_FETCH_RESPONSE_TOPICS),
        Field("error_code", "error_code", 8, 10, default=0),
    ),
)


class OffsetFetchResponsePartition(NamedTuple):
    """A part of it."""

    partition_index: int = 0
    committed_offset: int = 0
    committed_leader_epoch: int = -1
    metadata: str | None = ""
    error_code: int = 0


OFFSET_FETCH_RESPONSE_PARTITION: Final = Layout(
    OffsetFetchResponsePartition,
    (
        Field("partition_index", "int32", 1, 7),
        Field("committed_offset", "int64", 1, 7),
        Field("committed_leader_epoch", "int32", 5, 7, default=-1),
        Field("metadata", "string", 1, 7, nullable_from=1),
        Field("error_code", "error_code", 1, 7, default=0),
    ),
)


class OffsetFetchResponseTopic(NamedTuple):
    """A part of it."""

    name: str = ""
    partitions: tuple[OffsetFetchResponsePartition, ...] = ()


OFFSET_FETCH_RESPONSE_TOPIC: Final = Layout(
    OffsetFetchResponseTopic,
    (
        Field("name", "string", 1, 7),
        Field("partitions", STRUCTURE, 1, 7, is_array=True, nested=OFFSET_FETCH_RESPONSE_PARTITION),
    ),
)


class OffsetFetchResponse(NamedTuple):
    """The message."""

    throttle_time_ms: int = 0
    groups: tuple[OffsetFetchResponseGroup, ...] = ()
    topics: tuple[OffsetFetchResponseTopic, ...] = ()
    error_code: int = 0


LAYOUT: Final = Layout(
    OffsetFetchResponse,
    (
        Field("throttle_time_ms", "timedelta_i32", 3, 10, default=0),
        Field("groups", STRUCTURE, 8, 10, is_array=True, nested=OFFSET_FETCH_RESPONSE_GROUP),
        Field("topics", STRUCTURE, 1, 7, is_array=True, nested=OFFSET_FETCH_RESPONSE_TOPIC),
        Field("error_code", "error_code", 2, 7, default=0),
    ),
)
