"""ListOffsetsResponse (key 2), versions 1 to 11. Written by `codegen.messages`: do not edit."""

from typing import Final, NamedTuple

from millstream.wire.schema import STRUCTURE, Field, Layout


class ListOffsetsPartitionResponse(NamedTuple):
    """A part of it."""

    partition_index: int = 0
    error_code: int = 0
    timestamp: int = -1
    offset: int = -1
    leader_epoch: int = -1


LIST_OFFSETS_PARTITION_RESPONSE: Final = Layout(
    ListOffsetsPartitionResponse,
    (
        Field("partition_index", "int32", 1, 11),
        Field("error_code", "error_code", 1, 11, default=0),
        Field("timestamp", "int64", 1, 11, default=-1),
        Field("offset", "int64", 1, 11, default=-1),
        Field("leader_epoch", "int32", 4, 11, default=-1),
    ),
)


class ListOffsetsTopicResponse(NamedTuple):
    """A part of it."""

    name: str = ""
    partitions: tuple[ListOffsetsPartitionResponse, ...] = ()


LIST_OFFSETS_TOPIC_RESPONSE: Final = Layout(
    ListOffsetsTopicResponse,
    (
        Field("name", "string", 1, 11),
        Field("partitions", STRUCTURE, 1, 11, is_array=True, nested=LIST_OFFSETS_PARTITION_RESPONSE),
    ),
)


class ListOffsetsResponse(NamedTuple):
    """The message."""

    throttle_time_ms: int = 0
    topics: tuple[ListOffsetsTopicResponse, ...] = ()


LAYOUT: Final = Layout(
    ListOffsetsResponse,
    (
        Field("throttle_time_ms", "timedelta_i32", 2, 11, default=0),
        Field("topics", STRUCTURE, 1, 11, is_array=True, nested=LIST_OFFSETS_TOPIC_RESPONSE),
    ),
)
