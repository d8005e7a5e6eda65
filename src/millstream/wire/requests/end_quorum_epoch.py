"""EndQuorumEpochRequest (key 54), versions 0 to 1. Written by `codegen.messages`: do not edit."""

from typing import Final, NamedTuple
from uuid import UUID

from millstream.wire.schema import STRUCTURE, Field, Layout


class ReplicaInfo(NamedTuple):
    """A part of it."""

    candidate_id: int = 0
    candidate_directory_id: UUID | None = None


REPLICA_INFO: Final = Layout(
    ReplicaInfo,
    (
        Field("candidate_id", "int32", 1, 1),
        Field("candidate_directory_id", "uuid", 1, 1, nullable_from=1),
    ),
)


class PartitionData(NamedTuple):
    """A part of it."""

    partition_index: int = 0
    leader_id: int = 0
    leader_epoch: int = 0
    preferred_candidates: tuple[ReplicaInfo, ...] = ()
    preferred_successors: tuple[int, ...] = ()


PARTITION_DATA: Final = Layout(
    PartitionData,
    (
        Field("partition_index", "int32", 0, 1),
        Field("leader_id", "int32", 0, 1),
        Field("leader_epoch", "int32", 0, 1),
        Field("preferred_candidates", STRUCTURE, 1, 1, is_array=True, nested=REPLICA_INFO),
        Field("preferred_successors", "int32", 0, 0, default=(), is_array=True),
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


class EndQuorumEpochRequest(NamedTuple):
    """The message."""

    cluster_id: str | None = None
    topics: tuple[TopicData, ...] = ()
    leader_endpoints: tuple[LeaderEndpoint, ...] = ()


LAYOUT: Final = Layout(
    EndQuorumEpochRequest,
    (
        Field("cluster_id", "string", 0, 1, default=None, nullable_from=0),
        Field("topics", STRUCTURE, 0, 1, is_array=True, nested=TOPIC_DATA),
        Field("leader_endpoints", STRUCTURE, 1, 1, is_array=True, nested=LEADER_ENDPOINT),
    ),
)
