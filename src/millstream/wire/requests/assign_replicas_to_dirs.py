"""AssignReplicasToDirsRequest (key 73), versions 0 to 0. Written by `codegen.messages`: do not edit."""

from typing import Final, NamedTuple
from uuid import UUID

from millstream.wire.schema import STRUCTURE, Field, Layout


class PartitionData(NamedTuple):
    """A part of it."""

    partition_index: int = 0


PARTITION_DATA: Final = Layout(
    PartitionData,
    (Field("partition_index", "int32", 0, 0),),
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


class AssignReplicasToDirsRequest(NamedTuple):
    """The message."""

    broker_id: int = 0
    broker_epoch: int = -1
    directories: tuple[DirectoryData, ...] = ()


LAYOUT: Final = Layout(
    AssignReplicasToDirsRequest,
    (
        Field("broker_id", "int32", 0, 0),
        Field("broker_epoch", "int64", 0, 0, default=-1),
        Field("directories", STRUCTURE, 0, 0, is_array=True, nested=DIRECTORY_DATA),
    ),
)
