"""ReadShareGroupStateSummaryResponse (key 87), versions 0 to 1. Written by `codegen.messages`: do not edit."""

from typing import Final, NamedTuple
from uuid import UUID

from millstream.wire.schema import STRUCTURE, Field, Layout


class PartitionResult(NamedTuple):
    """A part of it."""

    partition: int = 0
    error_code: int = 0
    error_message: str | None = None
    state_epoch: int = 0
    leader_epoch: int = 0
    start_offset: int = 0
    delivery_complete_count: int = -1


PARTITION_RESULT: Final = Layout(
    PartitionResult,
    (
        Field("partition", "int32", 0, 1),
        Field("error_code", "error_code", 0, 1, default=0),
        Field("error_message", "string", 0, 1, default=None, nullable_from=0),
        Field("state_epoch", "int32", 0, 1),
        Field("leader_epoch", "int32", 0, 1),
        Field("start_offset", "int64", 0, 1),
        Field("delivery_complete_count", "int32", 1, 1, default=-1),
    ),
)


class ReadStateSummaryResult(NamedTuple):
    """A part of it."""

    topic_id: UUID | None = None
    partitions: tuple[PartitionResult, ...] = ()


READ_STATE_SUMMARY_RESULT: Final = Layout(
    ReadStateSummaryResult,
    (
        Field("topic_id", "uuid", 0, 1, nullable_from=0),
        Field("partitions", STRUCTURE, 0, 1, is_array=True, nested=PARTITION_RESULT),
    ),
)


class ReadShareGroupStateSummaryResponse(NamedTuple):
    """The message."""

    results: tuple[ReadStateSummaryResult, ...] = ()


LAYOUT: Final = Layout(
    ReadShareGroupStateSummaryResponse,
    (Field("results", STRUCTURE, 0, 1, is_array=True, nested=READ_STATE_SUMMARY_RESULT),),
)
