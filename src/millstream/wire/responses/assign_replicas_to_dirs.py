"""AssignReplicasToDirsResponse (key 73), versions 0 to 0. Written by `codegen.messages`: do not edit."""

from typing import Final, NamedTuple
from uuid import UUID

from millstream.wire.schema import STRUCTURE, Field, Layout


class PartitionData(NamedTuple):
    """A part of it."""

    partition_index: int = 0
    error_code: int = 0


PARTITION_DATA: Final = Layout(
    PartitionData,
    (
        Field("partition_index", "int32", 0, 0),
        Field("error_code", "error_code", 0, 0, default=0),
    ),
)


class TopicData(NamedTuple):
    """A part of it."""

    topic_id: UUID | None = None
    partitions: tuple[PartitionData, ...] = ()


TOPIC_DATA: Final = Layout(
    TopicData,
    (
        Field("topic_id", "uuid", 0, 0, nullable_from=0),
        Field("partitions", STRUCTURE, 0, 0, is_array=True, nested=PARTITION_DATA),
    ),
)


class DirectoryData(NamedTuple):
    """A part of it."""

    id_: UUID | None = None
    topics: tuple[TopicData, ...] = ()


DIRECTORY_DATA: Final = Layout(
    DirectoryData,
    (
        Field("id_", "uuid", 0, 0, nullable_from=0),
        Field("topics", STRUCTURE, 0, 0, is_array=True, nested=TOPIC_DATA),
    ),
)


class AssignReplicasToDirsResponse(NamedTuple):
    """The message."""

    throttle_time_ms: int = 0
    error_code: int = 0
    directories: tuple[DirectoryData, ...] = ()


LAYOUT: Final = Layout(
    AssignReplicasToDirsResponse,
    (
        Field("throttle_time_ms", "timedelta_i32", 0, 0, default=0),
        Field("error_code", "error_code", 0, 0, default=0),
        Field("directories", STRUCTURE, 0, 0, is_array=True, nested=DIRECTORY_DATA),
    ),
)
