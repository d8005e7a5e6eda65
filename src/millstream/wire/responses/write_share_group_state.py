"""WriteShareGroupStateResponse (key 85), versions 0 to 1. Written by `codegen.messages`: do not edit."""

from typing import Final, NamedTuple
from uuid import UUID

from millstream.wire.schema import STRUCTURE, Field, Layout


class PartitionResult(NamedTuple):
    """A part of it."""

    partition: int = 0
    error_code: int = 0
    error_message: str | None = None


PARTITION_RESULT: Final = Layout(
    PartitionResult,
    (
        Field("partition", "int32", 0, 1),
        Field("error_code", "error_code", 0, 1, default=0),
        Field("error_message", "string", 0, 1, default=None, nullable_from=0),
    ),
)


class WriteStateResult(NamedTuple):
    """A part of it."""

    topic_id: UUID | None = None
    partitions: tuple[PartitionResult, ...] = ()


WRITE_STATE_RESULT: Final = Layout(
    WriteStateResult,
    (
        Field("topic_id", "uuid", 0, 1, nullable_from=0),
        Field("partitions", STRUCTURE, 0, 1, is_array=True, nested=PARTITION_RESULT),
    ),
)


class WriteShareGroupStateResponse(NamedTuple):
    """The message."""

    results: tuple[WriteStateResult, ...] = ()


LAYOUT: Final = Layout(
    WriteShareGroupStateResponse,
    (Field("results", STRUCTURE, 0, 1, is_array=True, nested=WRITE_STATE_RESULT),),
)
