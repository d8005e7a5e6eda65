"""ReadShareGroupStateResponse (key 84), versions 0 to 0. Written by `codegen.messages`: do not edit."""

from typing import Final, NamedTuple
from uuid import UUID

from millstream.wire.schema import STRUCTURE, Field, Layout


class StateBatch(NamedTuple):
    """A part of it."""

    first_offset: int = 0
    last_offset: int = 0
    delivery_state: int = 0
    delivery_count: int = 0


STATE_BATCH: Final = Layout(
    StateBatch,
    (
        Field("first_offset", "int64", 0, 0),
        Field("last_offset", "int64", 0, 0),
        Field("delivery_state", "int8", 0, 0),
        Field("delivery_count", "int16", 0, 0),
    ),
)


class PartitionResult(NamedTuple):
    """A part of it."""

    partition: int = 0
    error_code: int = 0
    error_message: str | None = None
    state_epoch: int = 0
    start_offset: int = 0
    state_batches: tuple[StateBatch, ...] = ()


PARTITION_RESULT: Final = Layout(
    PartitionResult,
    (
        Field("partition", "int32", 0, 0),
        Field("error_code", "error_code", 0, 0, default=0),
        Field("error_message", "string", 0, 0, default=None, nullable_from=0),
        Field("state_epoch", "int32", 0, 0),
        Field("start_offset", "int64", 0, 0),
        Field("state_batches", STRUCTURE, 0, 0, is_array=True, nested=STATE_BATCH),
    ),
)


class ReadStateResult(NamedTuple):
    """A part of it."""

    topic_id: UUID | None = None
    partitions: tuple[PartitionResult, ...] = ()


READ_STATE_RESULT: Final = Layout(
    ReadStateResult,
    (
        Field("topic_id", "uuid", 0, 0, nullable_from=0),
        Field("partitions", STRUCTURE, 0, 0, is_array=True, nested=PARTITION_RESULT),
    ),
)


class ReadShareGroupStateResponse(NamedTuple):
    """The message."""

    results: tuple[ReadStateResult, ...] = ()


LAYOUT: Final = Layout(
    ReadShareGroupStateResponse,
    (Field("results", STRUCTURE, 0, 0, is_array=True, nested=READ_STATE_RESULT),),
)
