"""InitializeShareGroupStateResponse (key 83), versions 0 to 0. Written by `codegen.messages`: do not edit."""

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
        Field("partition", "int32", 0, 0),
        Field("error_code", "error_code", 0, 0, default=0),
        Field("error_message", "string", 0, 0, default=None, nullable_from=0),
    ),
)


class InitializeStateResult(NamedTuple):
    """A part of it."""

    topic_id: UUID | None = None
    partitions: tuple[PartitionResult, ...] = ()


INITIALIZE_STATE_RESULT: Final = Layout(
    InitializeStateResult,
    (
        Field("topic_id", "uuid", 0, 0, nullable_from=0),
        Field("partitions", STRUCTURE, 0, 0, is_array=True, nested=PARTITION_RESULT),
    ),
)


class InitializeShareGroupStateResponse(NamedTuple):
    """The message."""

    results: tuple[InitializeStateResult, ...] = ()


LAYOUT: Final = Layout(
    InitializeShareGroupStateResponse,
    (Field("results", STRUCTURE, 0, 0, is_array=True, nested=INITIALIZE_STATE_RESULT),),
)
