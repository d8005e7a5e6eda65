"""OffsetCommitRequest (key 8), versions 2 to 10. Written by `codegen.messages`: do not edit."""

from typing import Final, NamedTuple
from uuid import UUID

from millstream.wire.schema import STRUCTURE, Field, Layout


class OffsetCommitRequestPartition(NamedTuple):
    """A part of it."""

    partition_index: int = 0
    committed_offset: int = 0
    committed_leader_epoch: int = -1
    committed_metadata: str | None = ""


OFFSET_COMMIT_REQUEST_PARTITION: Final = Layout(
    OffsetCommitRequestPartition,
    (
        Field("partition_index", "int32", 2, 10),
        Field("committed_offset", "int64", 2, 10),
        Field("committed_leader_epoch", "int32", 6, 10, default=-1),
        Field("committed_metadata", "string", 2, 10, nullable_from=2),
    ),
)


class OffsetCommitRequestTopic(NamedTuple):
    """A part of it."""

    topic_id: UUID | None = None
    name: str = ""
    partitions: tuple[OffsetCommitRequestPartition, ...] = ()


OFFSET_COMMIT_REQUEST_TOPIC: Final = Layout(
    OffsetCommitRequestTopic,
    (
        Field("topic_id", "uuid", 10, 10, nullable_from=10),
        Field("name", "string", 2, 9),
        Field("partitions", STRUCTURE, 2, 10, is_array=True, nested=OFFSET_COMMIT_REQUEST_PARTITION),
    ),
)


class OffsetCommitRequest(NamedTuple):
    """The message."""

    group_id: str = ""
    generation_id_or_member_epoch: int = -1
    member_id: str = ""
    group_instance_id: str | None = None
    retention_time_ms: int = -1
    topics: tuple[OffsetCommitRequestTopic, ...] = ()


LAYOUT: Final = Layout(
    OffsetCommitRequest,
    (
        Field("group_id", "string", 2, 10),
        Field("generation_id_or_member_epoch", "int32", 2, 10, default=-1),
        Field("member_id", "string", 2, 10),
        Field("group_instance_id", "string", 7, 10, default=None, nullable_from=7),
        Field("retention_time_ms", "timedelta_i64", 2, 4, default=-1),
        Field("topics", STRUCTURE, 2, 10, is_array=True, nested=OFFSET_COMMIT_REQUEST_TOPIC),
    ),
)
