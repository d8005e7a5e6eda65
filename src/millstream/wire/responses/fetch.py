"""FetchResponse (key 1), versions 4 to 18. Written by `codegen.messages`: do not edit."""

from typing import Final, NamedTuple
from uuid import UUID

from millstream.wire.schema import STRUCTURE, Field, Layout


class EpochEndOffset(NamedTuple):
    """A part of it."""

    epoch: int = -1
    end_offset: int = -1


EPOCH_END_OFFSET: Final = Layout(
    EpochEndOffset,
    (
        Field("epoch", "int32", 12, 18, default=-1),
        Field("end_offset", "int64", 12, 18, default=-1),
    ),
)


class LeaderIdAndEpoch(NamedTuple):
    """A part of it."""

    leader_id: int = -1
    leader_epoch: int = -1


LEADER_ID_AND_EPOCH: Final = Layout(
    LeaderIdAndEpoch,
    (
        Field("leader_id", "int32", 12, 18, default=-1),
        Field("leader_epoch", "int32", 12, 18, default=-1),
    ),
)


class SnapshotId(NamedTuple):
    """A part of it."""

    end_offset: int = -1
    epoch: int = -1


SNAPSHOT_ID: Final = Layout(
    SnapshotId,
    (
        Field("end_offset", "int64", 12, 18, default=-1),
        Field("epoch", "int32", 12, 18, default=-1),
    ),
)


class AbortedTransaction(NamedTuple):
    """A part of it."""

    producer_id: int = 0
    first_offset: int = 0


ABORTED_TRANSACTION: Final = Layout(
    AbortedTransaction,
    (
        Field("producer_id", "int64", 4, 18),
        Field("first_offset", "int64", 4, 18),
    ),
)


class PartitionData(NamedTuple):
    """A part of it."""

    partition_index: int = 0
    error_code: int = 0
    high_watermark: int = 0
    last_stable_offset: int = -1
    log_start_offset: int = -1
    diverging_epoch: EpochEndOffset = EpochEndOffset()
    current_leader: LeaderIdAndEpoch = LeaderIdAndEpoch()
    snapshot_id: SnapshotId = SnapshotId()
    aborted_transactions: tuple[AbortedTransaction, ...] | None = ()
    preferred_read_replica: int = -1
    records: bytes | None = b""


PARTITION_DATA: Final = Layout(
    PartitionData,
    (
        Field("partition_index", "int32", 4, 18),
        Field("error_code", "error_code", 4, 18, default=0),
        Field("high_watermark", "int64", 4, 18),
        Field("last_stable_offset", "int64", 4, 18, default=-1),
        Field("log_start_offset", "int64", 5, 18, default=-1),
        Field("diverging_epoch", STRUCTURE, 12, 18, default=EpochEndOffset(), tag=0, nested=EPOCH_END_OFFSET),
        Field("current_leader", STRUCTURE, 12, 18, default=LeaderIdAndEpoch(), tag=1, nested=LEADER_ID_AND_EPOCH),
        Field("snapshot_id", STRUCTURE, 12, 18, default=SnapshotId(), tag=2, nested=SNAPSHOT_ID),
        Field("aborted_transactions", STRUCTURE, 4, 18, is_array=True, nullable_from=4, nested=ABORTED_TRANSACTION),
        Field("preferred_read_replica", "int32", 11, 18, default=-1),
        Field("records", "records", 4, 18, nullable_from=4),
    ),
)


class FetchableTopicResponse(NamedTuple):
    """A part of it."""

    topic_id: UUID | None = None
    topic: str = ""
    partitions: tuple[PartitionData, ...] = ()


FETCHABLE_TOPIC_RESPONSE: Final = Layout(
    FetchableTopicResponse,
    (
        Field("topic_id", "uuid", 13, 18, nullable_from=13),
        Field("topic", "string", 4, 12),
        Field("partitions", STRUCTURE, 4, 18, is_array=True, nested=PARTITION_DATA),
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
        Field("node_id", "int32", 16, 18),
        Field("host", "string", 16, 18),
        Field("port", "int32", 16, 18),
        Field("rack", "string", 16, 18, default=None, nullable_from=16),
    ),
)


class FetchResponse(NamedTuple):
    """The message."""

    throttle_time_ms: int = 0
    error_code: int = 0
    session_id: int = 0
    responses: tuple[FetchableTopicResponse, ...] = ()
    node_endpoints: tuple[NodeEndpoint, ...] = ()


LAYOUT: Final = Layout(
    FetchResponse,
    (
        Field("throttle_time_ms", "timedelta_i32", 4, 18, default=0),
        Field("error_code", "error_code", 7, 18, default=0),
        Field("session_id", "int32", 7, 18, default=0),
        Field("responses", STRUCTURE, 4, 18, is_array=True, nested=FETCHABLE_TOPIC_RESPONSE),
        Field("node_endpoints", STRUCTURE, 16, 18, default=(), is_array=True, tag=0, nested=NODE_ENDPOINT),
    ),
)
