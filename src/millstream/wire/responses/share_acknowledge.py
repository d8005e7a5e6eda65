"""ShareAcknowledgeResponse (key 79), versions 1 to 2. Written by `codegen.messages`: do not edit."""

from typing import Final, NamedTuple
from uuid import UUID

from millstream.wire.schema import STRUCTURE, Field, Layout


class LeaderIdAndEpoch(NamedTuple):
    """A part of it."""

    leader_id: int = 0
    leader_epoch: int = 0


LEADER_ID_AND_EPOCH: Final = Layout(
    LeaderIdAndEpoch,
    (
        Field("leader_id", "int32", 1, 2),
        Field("leader_epoch", "int32", 1, 2),
    ),
)


class PartitionData(NamedTuple):
    """A part of it."""

    partition_index: int = 0
    error_code: int = 0
    error_message: str | None = None
    current_leader: LeaderIdAndEpoch = LeaderIdAndEpoch()


PARTITION_DATA: Final = Layout(
    PartitionData,
    (
        Field("partition_index", "int32", 1, 2),
        Field("error_code", "error_code", 1, 2, default=0),
        Field("error_message", "string", 1, 2, default=None, nullable_from=1),
        Field("current_leader", STRUCTURE, 1, 2, nested=LEADER_ID_AND_EPOCH),
    ),
)


class ShareAcknowledgeTopicResponse(NamedTuple):
    """A part of it."""

    topic_id: UUID | None = None
    partitions: tuple[PartitionData, ...] = ()


SHARE_ACKNOWLEDGE_TOPIC_RESPONSE: Final = Layout(
    ShareAcknowledgeTopicResponse,
    (
        Field("topic_id", "uuid", 1, 2, nullable_from=1),
        Field("partitions", STRUCTURE, 1, 2, is_array=True, nested=PARTITION_DATA),
    ),
)


class NodeEndpoint(NamedTuple):
    """A part of it."""

    node_id: int = 0
    host: str = ""
    port: int = 0
    rack: str | None = None


NODE_ENDPOINT: Final = Layout(
    NodeEndpoint,
    (
        Field("node_id", "int32", 1, 2),
        Field("host", "string", 1, 2),
        Field("port", "int32", 1, 2),
        Field("rack", "string", 1, 2, default=None, nullable_from=1),
    ),
)


class ShareAcknowledgeResponse(NamedTuple):
    """The message."""

    throttle_time_ms: int = 0
    error_code: int = 0
    error_message: str | None = None
    acquisition_lock_timeout_ms: int = 0
    responses: tuple[ShareAcknowledgeTopicResponse, ...] = ()
    node_endpoints: tuple[NodeEndpoint, ...] = ()


LAYOUT: Final = Layout(
    ShareAcknowledgeResponse,
    (
        Field("throttle_time_ms", "timedelta_i32", 1, 2, default=0),
        Field("error_code", "error_code", 1, 2, default=0),
        Field("error_message", "string", 1, 2, default=None, nullable_from=1),
        Field("acquisition_lock_timeout_ms", "timedelta_i32", 2, 2),
        Field("responses", STRUCTURE, 1, 2, is_array=True, nested=SHARE_ACKNOWLEDGE_TOPIC_RESPONSE),
        Field("node_endpoints", STRUCTURE, 1, 2, is_array=True, nested=NODE_ENDPOINT),
    ),
)
