"""DeleteRecordsResponse (key 21), versions 0 to 2. Written by `codegen.messages`: do not edit."""

from typing import Final, NamedTuple

from millstream.wire.schema import STRUCTURE, Field, Layout


class DeleteRecordsPartitionResult(NamedTuple):
    """A part of it."""

    partition_index: int = 0
    low_watermark: int = 0
    error_code: int = 0


DELETE_RECORDS_PARTITION_RESULT: Final = Layout(
    DeleteRecordsPartitionResult,
    (
        Field("partition_index", "int32", 0, 2),
        Field("low_watermark", "int64", 0, 2),
        Field("error_code", "error_code", 0, 2, default=0),
    ),
)


class DeleteRecordsTopicResult(NamedTuple):
    """A part of it."""

    name: str = ""
    partitions: tuple[DeleteRecordsPartitionResult, ...] = ()


DELETE_RECORDS_TOPIC_RESULT: Final = Layout(
    DeleteRecordsTopicResult,
    (
        Field("name", "string", 0, 2),
        Field("partitions", STRUCTURE, 0, 2, is_array=True, nested=DELETE_RECORDS_PARTITION_RESULT),
    ),
)


class DeleteRecordsResponse(NamedTuple):
    """The message."""

    throttle_time_ms: int = 0
    topics: tuple[DeleteRecordsTopicResult, ...] = ()


LAYOUT: Final = Layout(
    DeleteRecordsResponse,
    (
        Field("throttle_time_ms", "timedelta_i32", 0, 2, default=0),
        Field("topics", STRUCTURE, 0, 2, is_array=True, nested=DELETE_RECORDS_TOPIC_RESULT),
    ),
)
