"""FetchSnapshotResponse (key 59), versions 0 to 1. Written by `codegen.messages`: do not edit."""

from typing import Final, NamedTuple

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


class LeaderIdAndEpoch(NamedTuple):
    """A part of it."""

    leader_id: int = 0
    leader_epoch: int = 0


LEADER_ID_AND_EPOCH: Final = Layout(
    LeaderIdAndEpoch,
    (
        Field("leader_id", "int32", 0, 1),
        Field("leader_epoch", "int32", 0, 1),
    ),
)


class PartitionSnapshot(NamedTuple):
    """A part of it."""

    index: int = 0  # type: ignore[assignment]  # hides a method of tuples that is not called
    error_code: int = 0
    snapshot_id: SnapshotId = SnapshotId()
    current_leader: LeaderIdAndEpoch = LeaderIdAndEpoch()
    size: int = 0
    position: int = 0
    unaligned_records: bytes = b""


PARTITION_SNAPSHOT: Final = Layout(
    PartitionSnapshot,
    (
        Field("index", "int32", 0, 1),
        Field("error_code", "error_code", 0, 1, default=0),
        Field("snapshot_id", STRUCTURE, 0, 1, nested=SNAPSHOT_ID),
        Field("current_leader", STRUCTURE, 0, 1, default=LeaderIdAndEpoch(), tag=0, nested=LEADER_ID_AND_EPOCH),
        Field("size", "int64", 0, 1),
        Field("position", "int64", 0, 1),
        Field("unaligned_records", "records", 0, 1),
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


class NodeEndpoint(NamedTuple):
    """A part of it."""

    node_id: int = 0
    host: str = ""
    port: int = 0


NODE_ENDPOINT: Final = Layout(
    NodeEndpoint,
    (
        Field("node_id", "int32", 1, 1),
        Field("host", "string", 1, 1),
        Field("port", "uint16", 1, 1),
    ),
)


class FetchSnapshotResponse(NamedTuple):
    """The message."""

    throttle_time_ms: int = 0
    error_code: int = 0
    topics: tuple[TopicSnapshot, ...] = ()
    node_endpoints: tuple[NodeEndpoint, ...] = ()


LAYOUT: Final = Layout(
    FetchSnapshotResponse,
    (
        Field("throttle_time_ms", "timedelta_i32", 0, 1, default=0),
        Field("error_code", "error_code", 0, 1, default=0),
        Field("topics", STRUCTURE, 0, 1, is_array=True, nested=TOPIC_SNAPSHOT),
        Field("node_endpoints", STRUCTURE, 1, 1, default=(), is_array=True, tag=0, nested=NODE_ENDPOINT),
    ),
)
