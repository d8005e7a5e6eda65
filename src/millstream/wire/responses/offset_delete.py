"""OffsetDeleteResponse (key 47), versions 0 to 0. Written by `codegen.messages`: do not edit."""

from typing import Final, NamedTuple

from millstream.wire.schema import STRUCTURE, Field, Layout


class OffsetDeleteResponsePartition(NamedTuple):
    """A part of it."""

    partition_index: int = 0
    error_code: int = 0


OFFSET_DELETE_RESPONSE_PARTITION: Final = Layout(
    OffsetDeleteResponsePartition,
    (
        Field("partition_index", "int32", 0, 0),
        Field("error_code", "error_code", 0, 0, default=0),
    ),
)


class OffsetDeleteResponseTopic(NamedTuple):
    """A part of it."""

    name: str = ""
    partitions: tuple[OffsetDeleteResponsePartition, ...] = ()


OFFSET_DELETE_RESPONSE_TOPIC: Final = Layout(
    OffsetDeleteResponseTopic,
    (
        Field("name", "string", 0, 0),
        Field("partitions", STRUCTURE, 0, 0, is_array=True, nested=OFFSET_DELETE_RESPONSE_PARTITION),
    ),
)


class OffsetDeleteResponse(NamedTuple):
    """The message."""

    error_code: int = 0
    throttle_time_ms: int = 0
    topics: tuple[OffsetDeleteResponseTopic, ...] = ()


LAYOUT: Final = Layout(
    OffsetDeleteResponse,
    (
        Field("error_code", "error_code", 0, 0, default=0),
        Field("throttle_time_ms", "timedelta_i32", 0, 0, default=0),
        Field("topics", STRUCTURE, 0, 0, is_array=True, nested=OFFSET_DELETE_RESPONSE_TOPIC),
    ),
)
