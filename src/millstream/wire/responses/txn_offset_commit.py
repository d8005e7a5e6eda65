"""TxnOffsetCommitResponse (key 28), versions 0 to 5. Written by `codegen.messages`: do not edit."""

from typing import Final, NamedTuple

from millstream.wire.schema import STRUCTURE, Field, Layout


class TxnOffsetCommitResponsePartition(NamedTuple):
    """A part of it."""

    partition_index: int = 0
    error_code: int = 0


TXN_OFFSET_COMMIT_RESPONSE_PARTITION: Final = Layout(
    TxnOffsetCommitResponsePartition,
    (
        Field("partition_index", "int32", 0, 5),
        Field("error_code", "error_code", 0, 5, default=0),
    ),
)


class TxnOffsetCommitResponseTopic(NamedTuple):
    """A part of it."""

    name: str = ""
    partitions: tuple[TxnOffsetCommitResponsePartition, ...] = ()


TXN_OFFSET_COMMIT_RESPONSE_TOPIC: Final = Layout(
    TxnOffsetCommitResponseTopic,
    (
        Field("name", "string", 0, 5),
        Field("partitions", STRUCTURE, 0, 5, is_array=True, nested=TXN_OFFSET_COMMIT_RESPONSE_PARTITION),
    ),
)


class TxnOffsetCommitResponse(NamedTuple):
    """The message."""

    throttle_time_ms: int = 0
    topics: tuple[TxnOffsetCommitResponseTopic, ...] = ()


LAYOUT: Final = Layout(
    TxnOffsetCommitResponse,
    (
        Field("throttle_time_ms", "timedelta_i32", 0, 5, default=0),
        Field("topics", STRUCTURE, 0, 5, is_array=True, nested=TXN_OFFSET_COMMIT_RESPONSE_TOPIC),
    ),
)
