"""DescribeProducersResponse (key 61), versions 0 to 0. Written by `codegen.messages`: do not edit."""

from typing import Final, NamedTuple

from millstream.wire.schema import STRUCTURE, Field, Layout


class ProducerState(NamedTuple):
    """A part of it."""

    producer_id: int = 0
    producer_epoch: int = 0
    last_sequence: int = -1
    last_timestamp: int = -1
    coordinator_epoch: int = 0
    current_txn_start_offset: int = -1


PRODUCER_STATE: Final = Layout(
    ProducerState,
    (
        Field("producer_id", "int64", 0, 0),
        Field("producer_epoch", "int32", 0, 0),
        Field("last_sequence", "int32", 0, 0, default=-1),
        Field("last_timestamp", "int64", 0, 0, default=-1),
        Field("coordinator_epoch", "int32", 0, 0),
        Field("current_txn_start_offset", "int64", 0, 0, default=-1),
    ),
)


class PartitionResponse(NamedTuple):
    """A part of it."""

    partition_index: int = 0
    error_code: int = 0
    error_message: str | None = None
    active_producers: tuple[ProducerState, ...] = ()


PARTITION_RESPONSE: Final = Layout(
    PartitionResponse,
    (
        Field("partition_index", "int32", 0, 0),
        Field("error_code", "error_code", 0, 0, default=0),
        Field("error_message", "string", 0, 0, default=None, nullable_from=0),
        Field("active_producers", STRUCTURE, 0, 0, is_array=True, nested=PRODUCER_STATE),
    ),
)


class TopicResponse(NamedTuple):
    """A part of it."""

    name: str = ""
    partitions: tuple[PartitionResponse, ...] = ()


TOPIC_RESPONSE: Final = Layout(
    TopicResponse,
    (
        Field("name", "string", 0, 0),
        Field("partitions", STRUCTURE, 0, 0, is_array=True, nested=PARTITION_RESPONSE),
    ),
)


class DescribeProducersResponse(NamedTuple):
    """The message."""

    throttle_time_ms: int = 0
    topics: tuple[TopicResponse, ...] = ()


LAYOUT: Final = Layout(
    DescribeProducersResponse,
    (
        Field("throttle_time_ms", "timedelta_i32", 0, 0, default=0),
        Field("topics", STRUCTURE, 0, 0, is_array=True, nested=TOPIC_RESPONSE),
    ),
)
