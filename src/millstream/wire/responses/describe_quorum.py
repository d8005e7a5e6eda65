"""DescribeQuorumResponse (key 55), versions 0 to 2. Written by `codegen.messages`: do not edit."""

from typing import Final, NamedTuple
from uuid import UUID

from millstream.wire.schema import STRUCTURE, Field, Layout


class ReplicaState(NamedTuple):
    """A part of it."""

    replica_id: int = 0
    replica_directory_id: UUID | None = None
    log_end_offset: int = 0
    last_fetch_timestamp: int = -1
    last_caught_up_timestamp: int = -1


REPLICA_STATE: Final = Layout(
    ReplicaState,
    (
        Field("replica_id", "int32", 0, 2),
        Field("replica_directory_id", "uuid", 2, 2, nullable_from=2),
        Field("log_end_offset", "int64", 0, 2),
        Field("last_fetch_timestamp", "int64", 1, 2, default=-1),
        Field("last_caught_up_timestamp", "int64", 1, 2, default=-1),
    ),
)


class PartitionData(NamedTuple):
    """A part of it."""

    partition_index: int = 0
    error_code: int = 0
    error_message: str | None = ""
    leader_id: int = 0
    leader_epoch: int = 0
    high_watermark: int = 0
    current_voters: tuple[ReplicaState, ...] = ()
    observers: tuple[ReplicaState, ...] = ()


PARTITION_DATA: Final = Layout(
    PartitionData,
    (
        Field("partition_index", "int32", 0, 2),
        Field("error_code", "error_code", 0, 2, default=0),
        Field("error_message", "string", 2, 2, nullable_from=2),
        Field("leader_id", "int32", 0, 2),
        Field("leader_epoch", "int32", 0, 2),
        Field("high_watermark", "int64", 0, 2),
        Field("current_voters", STRUCTURE, 0, 2, is_array=True, nested=REPLICA_STATE),
        Field("observers", STRUCTURE, 0, 2, is_array=True, nested=REPLICA_STATE),
    ),
)


class TopicData(NamedTuple):
    """A part of it."""

    topic_name: str = ""
    partitions: tuple[PartitionData, ...] = ()


TOPIC_DATA: Final = Layout(
    TopicData,
    (
        Field("topic_name", "string", 0, 2),
        Field("partitions", STRUCTURE, 0, 2, is_array=True, nested=PARTITION_DATA),
    ),
)


class Listener(NamedTuple):
    """A part of it."""

    name: str = ""
    host: str = ""
    port: int = 0


LISTENER: Final = Layout(
    Listener,
    (
        Field("name", "string", 2, 2),
        Field("host", "string", 2, 2),
        Field("port", "uint16", 2, 2),
    ),
)


class Node(NamedTuple):
    """A part of it."""

    node_id: int = 0
    listeners: tuple[Listener, ...] = ()


NODE: Final = Layout(
    Node,
    (
        Field("node_id", "int32", 2, 2),
        Field("listeners", STRUCTURE, 2, 2, is_array=True, nested=LISTENER),
    ),
)


class DescribeQuorumResponse(NamedTuple):
    """The message."""

    error_code: int = 0
    error_message: str | None = ""
    topics: tuple[TopicData, ...] = ()
    nodes: tuple[Node, ...] = ()


LAYOUT: Final = Layout(
    DescribeQuorumResponse,
    (
        Field("error_code", "error_code", 0, 2, default=0),
        Field("error_message", "string", 2, 2, nullable_from=2),
        Field("topics", STRUCTURE, 0, 2, is_array=True, nested=TOPIC_DATA),
        Field("nodes", STRUCTURE, 2, 2, is_array=True, nested=NODE),
    ),
)
