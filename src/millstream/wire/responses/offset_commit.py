"""OffsetCommitResponse (key 8), versions 2 to 10. Written by `codegen.messages`: do not edit."""

from typing import Final, NamedTuple
from uuid import UUID

from millstream.wire.schema import STRUCTURE, Field, Layout


class OffsetCommitResponsePartition(NamedTuple):
    """A part of it."""

    partition_index: int = 0
    error_code: int = 0


OFFSET_COMMIT_RESPONSE_PARTITION: Final = Layout(
    OffsetCommitResponsePartition,
    (
        Field("partition_index", "int32", 2, 10),
        Field("error_code", "error_code", 2, 10, default=0),
    ),
)


class OffsetCommitResponseTopic(NamedTuple):
    """A part of it."""

    topic_id: UUID | None = None
    name: str = ""
    partitions: tuple[OffsetCommitResponsePartition, ...] = ()


OFFSET_COMMIT_RESPONSE_TOPIC: Final = Layout(
    OffsetCommitResponseTopic,
    (
        Field("topic_id", "uuid", 10, 10, nullable_from=10),
        Field("name", "string", 2, 9),
        Field("partitions", STRUCTURE, 2, 10, is_array=True, nested=OFFSET_COMMIT_RESPONSE_PARTITION),
    ),
)


class OffsetCommitResponse(NamedTuple):
    """The message."""

    throttle_time_ms: int = 0
    topics: tuple[OffsetCommitResponseTopic, ...] = ()


LAYOUT: Final = Layout(
    OffsetCommitResponse,
    (
        Field("throttle_time_ms", "timedelta_i32", 3, 10, default=0),
        Field("topics", STRUCTURE, 2, 10, is_array=True, nested=OFFSET_COMMIT_RESPONSE_TOPIC),
    ),
)
