"""VoteResponse (key 52), versions 0 to 2. Written by `codegen.messages`: do not edit."""

from typing import Final, NamedTuple

from millstream.wire.schema import STRUCTURE, Field, Layout


class PartitionData(NamedTuple):
    """A part of it."""

    partition_index: int = 0
    error_code: int = 0
    leader_id: int = 0
    leader_epoch: int = 0
    vote_granted: bool = False


PARTITION_DATA: Final = Layout(
    PartitionData,
    (
        Field("partition_index", "int32", 0, 2),
        Field("error_code", "error_code", 0, 2, default=0),
        Field("leader_id", "int32", 0, 2),
        Field("leader_epoch", "int32", 0, 2),
        Field("vote_granted", "bool", 0, 2),
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


class NodeEndpoint(NamedTuple):
    """A part of it."""

    node_id: int = 0
    host: str = ""
    port: int = 0


NODE_ENDPOINT: Final = Layout(
    NodeEndpoint,
    (
        Field("node_id", "int32", 1, 2),
        Field("host", "string", 1, 2),
        Field("port", "uint16", 1, 2),
    ),
)


class VoteResponse(NamedTuple):
    """The message."""

    error_code: int = 0
    topics: tuple[TopicData, ...] = ()
    node_endpoints: tuple[NodeEndpoint, ...] = ()


LAYOUT: Final = Layout(
    VoteResponse,
    (
        Field("error_code", "error_code", 0, 2, default=0),
        Field("topics", STRUCTURE, 0, 2, is_array=True, nested=TOPIC_DATA),
        Field("node_endpoints", STRUCTURE, 1, 2, default=(), is_array=True, tag=0, nested=NODE_ENDPOINT),
    ),
)
