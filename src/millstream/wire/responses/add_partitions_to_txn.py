"""AddPartitionsToTxnResponse (key 24), versions 0 to 5. Written by `codegen.messages`: do not edit."""

from typing import Final, NamedTuple

from millstream.wire.schema import STRUCTURE, Field, Layout


class AddPartitionsToTxnPartitionResult(NamedTuple):
    """A part of it."""

    partition_index: int = 0
    partition_error_code: int = 0


ADD_PARTITIONS_TO_TXN_PARTITION_RESULT: Final = Layout(
    AddPartitionsToTxnPartitionResult,
    (
        Field("partition_index", "int32", 0, 5),
        Field("partition_error_code", "error_code", 0, 5),
    ),
)


class AddPartitionsToTxnTopicResult(NamedTuple):
    """A part of it."""

    name: str = ""
    results_by_partition: tuple[AddPartitionsToTxnPartitionResult, ...] = ()


ADD_PARTITIONS_TO_TXN_TOPIC_RESULT: Final = Layout(
    AddPartitionsToTxnTopicResult,
    (
        Field("name", "string", 0, 5),
        Field("results_by_partition", STRUCTURE, 0, 5, is_array=True, nested=ADD_PARTITIONS_TO_TXN_PARTITION_RESULT),
    ),
)


class AddPartitionsToTxnResult(NamedTuple):
    """A part of it."""

    transactional_id: str = ""
    topic_results: tuple[AddPartitionsToTxnTopicResult, ...] = ()


ADD_PARTITIONS_TO_TXN_RESULT: Final = Layout(
    AddPartitionsToTxnResult,
    (
        Field("transactional_id", "string", 4, 5),
        Field("topic_results", STRUCTURE, 4, 5, is_array=True, nested=ADD_PARTITIONS_TO_TXN_TOPIC_RESULT),
    ),
)


class AddPartitionsToTxnResponse(NamedTuple):
    """The message."""

    throttle_time_ms: int = 0
    error_code: int = 0
    results_by_transaction: tuple[AddPartitionsToTxnResult, ...] = ()
    results_by_topic_v3_and_below: tuple[AddPartitionsToTxnTopicResult, ...] = ()


LAYOUT: Final = Layout(
    AddPartitionsToTxnResponse,
    (
        Field("throttle_time_ms", "timedelta_i32", 0, 5, default=0),
        Field("error_code", "error_code", 4, 5, default=0),
        Field("results_by_transaction", STRUCTURE, 4, 5, is_array=True, nested=ADD_PARTITIONS_TO_TXN_RESULT),
        Field("results_by_topic_v3_and_below", STRUCTURE, 0, 3, is_array=True, nested=ADD_PARTITIONS_TO_TXN_TOPIC_RESULT),
    ),
)
