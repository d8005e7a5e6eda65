"""VoteRequest (key 52), versions 0 to 2. Written by `codegen.messages`: do not edit."""

from typing import Final, NamedTuple
from uuid import UUID

from millstream.wire.schema import STRUCTURE, Field, Layout


class PartitionData(NamedTuple):
    """A part of it."""

    partition_index: int = 0
    replica_epoch: int = 0
    replica_id: int = 0
    replica_directory_id: UUID | None = None
    voter_directory_id: UUID | None = None
    last_offset_epoch: int = 0
    last_offset: int = 0
    pre_vote: bool = False


PARTITION_DATA: Final = Layout(
    PartitionData,
    (
        Field("partition_index", "int32", 0, 2),
        Field("replica_epoch", "int32", 0, 2),
        Field("replica_id", "int32", 0, 2),
        Field("replica_directory_id", "uuid", 1, 2, nullable_from=1),
        Field("voter_directory_id", "uuid", 1, 2, nullable_from=1),
        Field("last_offset_epoch", "int32", 0, 2),
        Field("last_offset", "int64", 0, 2),
        Field("pre_vote", "bool", 2, 2),
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


class VoteRequest(NamedTuple):
    """The message."""

    cluster_id: str | None = None
    voter_id: int = -1
    topics: tuple[TopicData, ...] = ()


LAYOUT: Final = Layout(
    VoteRequest,
    (
        Field("cluster_id", "string", 0, 2, default=None, nullable_from=0),
        Field("voter_id", "int32", 1, 2, default=-1),
        Field("topics", STRUCTURE, 0, 2, is_array=True, nested=TOPIC_DATA),
    ),
)
