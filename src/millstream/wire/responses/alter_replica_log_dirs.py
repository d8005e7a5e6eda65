"""AlterReplicaLogDirsResponse (key 34), versions 1 to 2. Written by `codegen.messages`: do not edit."""

from typing import Final, NamedTuple

from millstream.wire.schema import STRUCTURE, Field, Layout


class AlterReplicaLogDirPartitionResult(NamedTuple):
    """A part of it."""

    partition_index: int = 0
    error_code: int = 0


ALTER_REPLICA_LOG_DIR_PARTITION_RESULT: Final = Layout(
    AlterReplicaLogDirPartitionResult,
    (
        Field("partition_index", "int32", 1, 2),
        Field("error_code", "error_code", 1, 2, default=0),
    ),
)


class AlterReplicaLogDirTopicResult(NamedTuple):
    """A part of it."""

    topic_name: str = ""
    partitions: tuple[AlterReplicaLogDirPartitionResult, ...] = ()


ALTER_REPLICA_LOG_DIR_TOPIC_RESULT: Final = Layout(
    AlterReplicaLogDirTopicResult,
    (
        Field("topic_name", "string", 1, 2),
        Field("partitions", STRUCTURE, 1, 2, is_array=True, nested=ALTER_REPLICA_LOG_DIR_PARTITION_RESULT),
    ),
)


class AlterReplicaLogDirsResponse(NamedTuple):
    """The message."""

    throttle_time_ms: int = 0
    results: tuple[AlterReplicaLogDirTopicResult, ...] = ()


LAYOUT: Final = Layout(
    AlterReplicaLogDirsResponse,
    (
        Field("throttle_time_ms", "timedelta_i32", 1, 2, default=0),
        Field("results", STRUCTURE, 1, 2, is_array=True, nested=ALTER_REPLICA_LOG_DIR_TOPIC_RESULT),
    ),
)
