"""EndQuorumEpochResponse (key 54), versions 0 to 1. Written by `codegen.messages`: do not edit."""

from typing import Final, NamedTuple

from millstream.wire.schema import STRUCTURE, Field, Layout


class PartitionData(NamedTuple):
    """A part of it."""

    partition_index: int = 0
    error_code: int = 0
    leader_id: int = 0
    leader_epoch: int = 0


PARTITION_DATA: Final = Layout(
    PartitionData,
    (
        Field("partition_index", "int32", 0, 1),
        Field("error_code", "error_code", 0, 1, default=0),
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


class EndQuorumEpochResponse(NamedTuple):
    """The message."""

    error_code: int = 0
    topics: tuple[TopicData, ...] = ()
    node_endpoints: tuple[NodeEndpoint, ...] = ()


LAYOUT: Final = Layout(
    EndQuorumEpochResponse,
    (
        Field("error_code", "error_code", 0, 1, default=0),
        Field("topics", STRUCTURE, 0, 1, is_array=True, nested=TOPIC_DATA),
        Field("node_endpoints", STRUCTURE, 1, 1, default=(), is_array=True, tag=0, nested=NODE_ENDPOINT),
    ),
)
