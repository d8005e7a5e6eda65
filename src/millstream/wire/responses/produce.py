"""ProduceResponse (key 0), versions 3 to 13. Written by `codegen.messages`: do not edit."""

from typing import Final, NamedTuple
from uuid import UUID

from millstream.wire.schema import STRUCTURE, Field, Layout


class BatchIndexAndErrorMessage(NamedTuple):
    """A part of it."""

    batch_index: int = 0
    batch_index_error_message: str | None = None


BATCH_INDEX_AND_ERROR_MESSAGE: Final = Layout(
    BatchIndexAndErrorMessage,
    (
        Field("batch_index", "int32", 8, 13),
        Field("batch_index_error_message", "string", 8, 13, default=None, nullable_from=8),
    ),
)


class LeaderIdAndEpoch(NamedTuple):
    """A part of it."""

    leader_id: int = -1
    leader_epoch: int = -1


LEADER_ID_AND_EPOCH: Final = Layout(
    LeaderIdAndEpoch,
    (
        Field("leader_id", "int32", 10, 13, default=-1),
        Field("leader_epoch", "int32", 10, 13, default=-1),
    ),
)


class PartitionProduceResponse(NamedTuple):
    """A part of it."""

    index: int = 0  # type: ignore[assignment]  # hides a method of tuples that is not called
    error_code: int = 0
    base_offset: int = 0
    log_append_time_ms: int | None = -1
    log_start_offset: int = -1
    record_errors: tuple[BatchIndexAndErrorMessage, ...] = ()
    error_message: str | None = None
    current_leader: LeaderIdAndEpoch = LeaderIdAndEpoch()


PARTITION_PRODUCE_RESPONSE: Final = Layout(
    PartitionProduceResponse,
    (
        Field("index", "int32", 3, 13),
        Field("error_code", "error_code", 3, 13, default=0),
        Field("base_offset", "int64", 3, 13),
        Field("log_append_time_ms", "datetime_i64", 3, 13, default=-1, nullable_from=3),
        Field("log_start_offset", "int64", 5, 13, default=-1),
        Field("record_errors", STRUCTURE, 8, 13, is_array=True, nested=BATCH_INDEX_AND_ERROR_MESSAGE),
        Field("error_message", "string", 8, 13, default=None, nullable_from=8),
        Field("current_leader", STRUCTURE, 10, 13, default=LeaderIdAndEpoch(), tag=0, nested=LEADER_ID_AND_EPOCH),
    ),
)


class TopicProduceResponse(NamedTuple):
    """A part of it."""

    topic_id: UUID | None = None
    name: str = ""
    partition_responses: tuple[PartitionProduceResponse, ...] = ()


TOPIC_PRODUCE_RESPONSE: Final = Layout(
    TopicProduceResponse,
    (
        Field("topic_id", "uuid", 13, 13, nullable_from=13),
        Field("name", "string", 3, 12),
        Field("partition_responses", STRUCTURE, 3, 13, is_array=True, nested=PARTITION_PRODUCE_RESPONSE),
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
        Field("node_id", "int32", 10, 13),
        Field("host", "string", 10, 13),
        Field("port", "int32", 10, 13),
        Field("rack", "string", 10, 13, default=None, nullable_from=10),
    ),
)


class ProduceResponse(NamedTuple):
    """The message."""

    responses: tuple[TopicProduceResponse, ...] = ()
    throttle_time_ms: int = 0
    node_endpoints: tuple[NodeEndpoint, ...] = ()


LAYOUT: Final = Layout(
    ProduceResponse,
    (
        Field("responses", STRUCTURE, 3, 13, is_array=True, nested=TOPIC_PRODUCE_RESPONSE),
        Field("throttle_time_ms", "timedelta_i32", 3, 13, default=0),
        Field("node_endpoints", STRUCTURE, 10, 13, default=(), is_array=True, tag=0, nested=NODE_ENDPOINT),
    ),
)
