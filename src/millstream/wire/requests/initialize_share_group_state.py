"""InitializeShareGroupStateRequest (key 83), versions 0 to 0. Written by `codegen.messages`: do not edit."""

from typing import Final, NamedTuple
from uuid import UUID

from millstream.wire.schema import STRUCTURE, Field, Layout


class PartitionData(NamedTuple):
    """A part of it."""

    partition: int = 0
    state_epoch: int = 0
    start_offset: int = 0


PARTITION_DATA: Final = Layout(
    PartitionData,
    (
        Field("partition", "int32", 0, 0),
        Field("state_epoch", "int32", 0, 0),
        Field("start_offset", "int64", 0, 0),
    ),
)


class InitializeStateData(NamedTuple):
    """A part of it."""

    topic_id: UUID | None = None
    partitions: tuple[PartitionData, ...] = ()


INITIALIZE_STATE_DATA: Final = Layout(
    InitializeStateData,
    (
        Field("topic_id", "uuid", 0, 0, nullable_from=0),
        Field("partitions", STRUCTURE, 0, 0, is_array=True, nested=PARTITION_DATA),
    ),
)


class InitializeShareGroupStateRequest(NamedTuple):
    """The message."""

    group_id: str = ""
    topics: tuple[InitializeStateData, ...] = ()


LAYOUT: Final = Layout(
    InitializeShareGroupStateRequest,
    (
        Field("group_id", "string", 0, 0),
        Field("topics", STRUCTURE, 0, 0, is_array=True, nested=INITIALIZE_STATE_DATA),
    ),
)
