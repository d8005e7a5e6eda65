"""ShareFetchResponse (key 78), versions 1 to 2. Written by `codegen.messages`: do not edit."""

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


class AcquiredRecords(NamedTuple):
    """A part of it."""

    first_offset: int = 0
    last_offset: int = 0
    delivery_count: int = 0


ACQUIRED_RECORDS: Final = Layout(
    AcquiredRecords,
    (
        Field("first_offset", "int64", 1, 2),
        Field("last_offset", "int64", 1, 2),
        Field("delivery_count", "int16", 1, 2),
    ),
)


class PartitionData(NamedTuple):
    """A part of it."""

    partition_index: int = 0
    error_code: int = 0
    error_message: str | None = None
    acknowledge_error_code: int = 0
    acknowledge_error_message: str | None = None
    current_leader: LeaderIdAndEpoch = LeaderIdAndEpoch()
    records: bytes = b""
    acquired_records: tuple[AcquiredRecords, ...] = ()


PARTITION_DATA: Final = Layout(
    PartitionData,
    (
        Field("partition_index", "int32", 1, 2),
        Field("error_code", "error_code", 1, 2, default=0),
        Field("error_message", "string", 1, 2, default=None, nullable_from=1),
        Field("acknowledge_error_code", "int16", 1, 2),
        Field("acknowledge_error_message", "string", 1, 2, default=None, nullable_from=1),
        Field("current_leader", STRUCTURE, 1, 2, nested=LEADER_ID_AND_EPOCH),
        Field("records", "records", 1, 2),
        Field("acquired_records", STRUCTURE, 1, 2, is_array=True, nested=ACQUIRED_RECORDS),
    ),
)


class ShareFetchableTopicResponse(NamedTuple):
    """A part of it."""

    topic_id: UUID | None = None
    partitions: tuple[PartitionData, ...] = ()


SHARE_FETCHABLE_TOPIC_RESPONSE: Final = Layout(
    ShareFetchableTopicResponse,
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


class ShareFetchResponse(NamedTuple):
    """The message."""

    throttle_time_ms: int = 0
    error_code: int = 0
    error_message: str | None = None
    acquisition_lock_timeout_ms: int = 0
    responses: tuple[ShareFetchableTopicResponse, ...] = ()
    node_endpoints: tuple[NodeEndpoint, ...] = ()


LAYOUT: Final = Layout(
    ShareFetchResponse,
    (
        Field("throttle_time_ms", "timedelta_i32", 1, 2, default=0),
        Field("error_code", "error_code", 1, 2, default=0),
        Field("error_message", "string", 1, 2, default=None, nullable_from=1),
        Field("acquisition_lock_timeout_ms", "timedelta_i32", 1, 2),
        Field("responses", STRUCTURE, 1, 2, is_array=True, nested=SHARE_FETCHABLE_TOPIC_RESPONSE),
        Field("node_endpoints", STRUCTURE, 1, 2, is_array=True, nested=NODE_ENDPOINT),
    ),
)
