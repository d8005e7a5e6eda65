"""AlterShareGroupOffsetsResponse (key 91), versions 0 to 0. Written by `codegen.messages`: do not edit."""

from typing import Final, NamedTuple
from uuid import UUID

from millstream.wire.schema import STRUCTURE, Field, Layout


class AlterShareGroupOffsetsResponsePartition(NamedTuple):
    """A part of it."""

    partition_index: int = 0
    error_code: int = 0
    error_message: str | None = None


ALTER_SHARE_GROUP_OFFSETS_RESPONSE_PARTITION: Final = Layout(
    AlterShareGroupOffsetsResponsePartition,
    (
        Field("partition_index", "int32", 0, 0),
        Field("error_code", "error_code", 0, 0, default=0),
        Field("error_message", "string", 0, 0, default=None, nullable_from=0),
    ),
)


class AlterShareGroupOffsetsResponseTopic(NamedTuple):
    """A part of it."""

    topic_name: str = ""
    topic_id: UUID | None = None
    partitions: tuple[AlterShareGroupOffsetsResponsePartition, ...] = ()


ALTER_SHARE_GROUP_OFFSETS_RESPONSE_TOPIC: Final = Layout(
    AlterShareGroupOffsetsResponseTopic,
    (
        Field("topic_name", "string", 0, 0),
        Field("topic_id", "uuid", 0, 0, nullable_from=0),
        Field("partitions", STRUCTURE, 0, 0, is_array=True, nested=ALTER_SHARE_GROUP_OFFSETS_RESPONSE_PARTITION),
    ),
)


class AlterShareGroupOffsetsResponse(NamedTuple):
    """The message."""

    throttle_time_ms: int = 0
    error_code: int = 0
    error_message: str | None = None
    responses: tuple[AlterShareGroupOffsetsResponseTopic, ...] = ()


LAYOUT: Final = Layout(
    AlterShareGroupOffsetsResponse,
    (
        Field("throttle_time_ms", "timedelta_i32", 0, 0, default=0),
        Field("error_code", "error_code", 0, 0, default=0),
        Field("error_message", "string", 0, 0, default=None, nullable_from=0),
        Field("responses", STRUCTURE, 0, 0, is_array=True, nested=ALTER_SHARE_GROUP_OFFSETS_RESPONSE_TOPIC),
    ),
)
