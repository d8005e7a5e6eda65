"""DescribeLogDirsResponse (key 35), versions 1 to 5. Written by `codegen.messages`: do not edit."""

from typing import Final, NamedTuple

from millstream.wire.schema import STRUCTURE, Field, Layout


class DescribeLogDirsPartition(NamedTuple):
    """A part of it."""

    partition_index: int = 0
    partition_size: int = 0
    offset_lag: int = 0
    is_future_key: bool = False


DESCRIBE_LOG_DIRS_PARTITION: Final = Layout(
    DescribeLogDirsPartition,
    (
        Field("partition_index", "int32", 1, 5),
        Field("partition_size", "int64", 1, 5),
        Field("offset_lag", "int64", 1, 5),
        Field("is_future_key", "bool", 1, 5),
    ),
)


class DescribeLogDirsTopic(NamedTuple):
    """A part of it."""

    name: str = ""
    partitions: tuple[DescribeLogDirsPartition, ...] = ()


DESCRIBE_LOG_DIRS_TOPIC: Final = Layout(
    DescribeLogDirsTopic,
    (
        Field("name", "string", 1, 5),
        Field("partitions", STRUCTURE, 1, 5, is_array=True, nested=DESCRIBE_LOG_DIRS_PARTITION),
    ),
)


class DescribeLogDirsResult(NamedTuple):
    """A part of it."""

    error_code: int = 0
    log_dir: str = ""
    topics: tuple[DescribeLogDirsTopic, ...] = ()
    total_bytes: int = -1
    usable_bytes: int = -1
    is_cordoned: bool = False


DESCRIBE_LOG_DIRS_RESULT: Final = Layout(
    DescribeLogDirsResult,
    (
        Field("error_code", "error_code", 1, 5, default=0),
        Field("log_dir", "string", 1, 5),
        Field("topics", STRUCTURE, 1, 5, is_array=True, nested=DESCRIBE_LOG_DIRS_TOPIC),
        Field("total_bytes", "int64", 4, 5, default=-1),
        Field("usable_bytes", "int64", 4, 5, default=-1),
        Field("is_cordoned", "bool", 5, 5, default=False),
    ),
)


class DescribeLogDirsResponse(NamedTuple):
    """The message."""

    throttle_time_ms: int = 0
    error_code: int = 0
    results: tuple[DescribeLogDirsResult, ...] = ()


LAYOUT: Final = Layout(
    DescribeLogDirsResponse,
    (
        Field("throttle_time_ms", "timedelta_i32", 1, 5, default=0),
        Field("error_code", "error_code", 3, 5, default=0),
        Field("results", STRUCTURE, 1, 5, is_array=True, nested=DESCRIBE_LOG_DIRS_RESULT),
    ),
)
