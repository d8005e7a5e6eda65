"""DescribeTransactionsResponse (key 65), versions 0 to 0. Written by `codegen.messages`: do not edit."""

from typing import Final, NamedTuple

from millstream.wire.schema import STRUCTURE, Field, Layout


class TopicData(NamedTuple):
    """A part of it."""

    topic: str = ""
    partitions: tuple[int, ...] = ()


TOPIC_DATA: Final = Layout(
    TopicData,
    (
        Field("topic", "string", 0, 0),
        Field("partitions", "int32", 0, 0, default=(), is_array=True),
    ),
)


class TransactionState(NamedTuple):
    """A part of it."""

    error_code: int = 0
    transactional_id: str = ""
    transaction_state: str = ""
    transaction_timeout_ms: int = 0
    transaction_start_time_ms: int = 0
    producer_id: int = 0
    producer_epoch: int = 0
    topics: tuple[TopicData, ...] = ()


TRANSACTION_STATE: Final = Layout(
    TransactionState,
    (
        Field("error_code", "error_code", 0, 0, default=0),
        Field("transactional_id", "string", 0, 0),
        Field("transaction_state", "string", 0, 0),
        Field("transaction_timeout_ms", "timedelta_i32", 0, 0),
        Field("transaction_start_time_ms", "datetime_i64", 0, 0),
        Field("producer_id", "int64", 0, 0),
        Field("producer_epoch", "int16", 0, 0),
        Field("topics", STRUCTURE, 0, 0, is_array=True, nested=TOPIC_DATA),
    ),
)


class DescribeTransactionsResponse(NamedTuple):
    """The message."""

    throttle_time_ms: int = 0
    transaction_states: tuple[TransactionState, ...] = ()


LAYOUT: Final = Layout(
    DescribeTransactionsResponse,
    (
        Field("throttle_time_ms", "timedelta_i32", 0, 0, default=0),
        Field("transaction_states", STRUCTURE, 0, 0, is_array=True, nested=TRANSACTION_STATE),
    ),
)
