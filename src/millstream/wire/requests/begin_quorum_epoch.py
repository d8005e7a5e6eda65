"""BeginQuorumEpochRequest (key 53), versions 0 to 1. Written by `codegen.messages`: do not edit."""

from typing import Final, NamedTuple
from uuid import UUID

from millstream.wire.schema import STRUCTURE, Field, Layout


class PartitionData(NamedTuple):
    """A part of it."""

    partition_index: int = 0
    voter_directory_id: UUID | None = None
    leader_id: int = 0
    leader_epoch: int = 0


PARTITION_DATA: Final = Layout(
    PartitionData,
    (
        Field("partition_index", "int32", 0, 1),
        Field("voter_directory_id", "uuid", 1, 1, nullable_from=1),
        Field("leader_id", "int32", 0, 1),
        Field("leader_epoch", "int32", 0, 1),
    ),
)


class TopicData(NamedTuple):
    """A part of it."""

    topic_name: str = ""
    partitions: tuple[PartitionData, ...] = ()


TOPIC_DATA: Final = Layout(
    TopicData,
    (
        Field("topic_name", "string", 0, 1),
        Field("partitions", STRUCTURE, 0, 1, is_array=True, nested=PARTITION_DATA),
    ),
)


class LeaderEndpoint(NamedTuple):
    """A part of it."""

    name: str = ""
    host: str = ""
    port: int = 0


LEADER_ENDPOINT: Final = Layout(
    LeaderEndpoint,
    (
        Field("name", "string", 1, 1),
        Field("host", "string", 1, 1),
        Field("port", "uint16", 1, 1),
    ),
)


class BeginQuorumEpochRequest(NamedTuple):
    """The message."""

    cluster_id: str | None = None
    voter_id: int = -1
    topics: tuple[TopicData, ...] = ()
    leader_endpoints: tuple[LeaderEndpoint, ...] = ()


LAYOUT: Final = Layout(
    BeginQuorumEpochRequest,
    (
        Field("cluster_id", "string", 0, 1, default=None, nullable_from=0),
        Field("voter_id", "int32", 1, 1, default=-1),
        Field("topics", STRUCTURE, 0, 1, is_array=True, nested=TOPIC_DATA),
        Field("leader_endpoints", STRUCTURE, 1, 1, is_array=True, nested=LEADER_ENDPOINT),
    ),
)
