"""FetchSnapshotRequest (key 59), versions 0 to 1. Written by `codegen.messages`: do not edit."""

from typing import Final, NamedTuple
from uuid import UUID

from millstream.wire.schema import STRUCTURE, Field, Layout


class SnapshotId(NamedTuple):
    """A part of it."""

    end_offset: int = 0
    epoch: int = 0


SNAPSHOT_ID: Final = Layout(
    SnapshotId,
    (
        Field("end_offset", "int64", 0, 1),
        Field("epoch", "int32", 0, 1),
    ),
)


class PartitionSnapshot(NamedTuple):
    """A part of it."""

    partition: int = 0
    current_leader_epoch: int = 0
    snapshot_id: SnapshotId = SnapshotId()
    position: int = 0
    replica_directory_id: UUID | None = None


PARTITION_SNAPSHOT: Final = Layout(
    PartitionSnapshot,
    (
        Field("partition", "int32", 0, 1),
        Field("current_leader_epoch", "int32", 0, 1),
        Field("snapshot_id", STRUCTURE, 0, 1, nested=SNAPSHOT_ID),
        Field("position", "int64", 0, 1),
        Field("replica_directory_id", "uuid", 1, 1, default=None, nullable_from=1, tag=0),
    ),
)


class TopicSnapshot(NamedTuple):
    """A part of it."""

    name: str = ""
    partitions: tuple[PartitionSnapshot, ...] = ()


TOPIC_SNAPSHOT: Final = Layout(
    TopicSnapshot,
    (
        Field("name", "string", 0, 1),
        Field("partitions", STRUCTURE, 0, 1, is_array=True, nested=PARTITION_SNAPSHOT),
    ),
)


class FetchSnapshotRequest(NamedTuple):
    """The message."""

    cluster_id: str | None = None
    replica_id: int = -1
    max_bytes: int = 2147483647
    topics: tuple[TopicSnapshot, ...] = ()


LAYOUT: Final = Layout(
    FetchSnapshotRequest,
    (
        Field("cluster_id", "string", 0, 1, default=None, nullable_from=0, tag=0),
        Field("replica_id", "int32", 0, 1, default=-1),
        Field("max_bytes", "int32", 0, 1, default=2147483647),
        Field("topics", STRUCTURE, 0, 1, is_array=True, nested=TOPIC_SNAPSHOT),
    ),
)
