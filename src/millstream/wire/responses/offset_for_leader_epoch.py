"""OffsetForLeaderEpochResponse (key 23), versions 2 to 4. Written by `codegen.messages`: do not edit."""

from typing import Final, NamedTuple

from millstream.wire.schema import STRUCTURE, Field, Layout


class EpochEndOffset(NamedTuple):
    """A part of it."""

    error_code: int = 0
    partition: int = 0
    leader_epoch: int = -1
    end_offset: int = -1


EPOCH_END_OFFSET: Final = Layout(
    EpochEndOffset,
    (
        Field("error_code", "error_code", 2, 4, default=0),
        Field("partition", "int32", 2, 4),
        Field("leader_epoch", "int32", 2, 4, default=-1),
        Field("end_offset", "int64", 2, 4, default=-1),
    ),
)


class OffsetForLeaderTopicResult(NamedTuple):
    """A part of it."""

    topic: str = ""
    partitions: tuple[EpochEndOffset, ...] = ()


OFFSET_FOR_LEADER_TOPIC_RESULT: Final = Layout(
    OffsetForLeaderTopicResult,
    (
        Field("topic", "string", 2, 4),
        Field("partitions", STRUCTURE, 2, 4, is_array=True, nested=EPOCH_END_OFFSET),
    ),
)


class OffsetForLeaderEpochResponse(NamedTuple):
    """The message."""

    throttle_time_ms: int = 0
    topics: tuple[OffsetForLeaderTopicResult, ...] = ()


LAYOUT: Final = Layout(
    OffsetForLeaderEpochResponse,
    (
        Field("throttle_time_ms", "timedelta_i32", 2, 4, default=0),
        Field("topics", STRUCTURE, 2, 4, is_array=True, nested=OFFSET_FOR_LEADER_TOPIC_RESULT),
    ),
)
