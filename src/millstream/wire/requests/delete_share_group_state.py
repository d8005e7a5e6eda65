"""DeleteShareGroupStateRequest (key 86), versions 0 to 0. Written by `codegen.messages`: do not edit."""

from typing import Final, NamedTuple
from uuid import UUID

from millstream.wire.schema import STRUCTURE, Field, Layout


class PartitionData(NamedTuple):
    """A part of it."""

    partition: int = 0


PARTITION_DATA: Final = Layout(
    PartitionData,
    (Field("partition", "int32", 0, 0),),
)


class DeleteStateData(NamedTuple):
    """A part of it."""

    topic_id: UUID | None = None
    partitions: tuple[PartitionData, ...] = ()


DELETE_STATE_DATA: Final = Layout(
    DeleteStateData,
    (
        Field("topic_id", "uuid", 0, 0, nullable_from=0),
        Field("partitions", STRUCTURE, 0, 0, is_array=True, nested=PARTITION_DATA),
    ),
)


class DeleteShareGroupStateRequest(NamedTuple):
    """The message."""

    group_id: str = ""
    topics: tuple[DeleteStateData, ...] = ()


LAYOUT: Final = Layout(
    DeleteShareGroupStateRequest,
    (
        Field("group_id", "string", 0, 0),
        Field("topics", STRUCTURE, 0, 0, is_array=True, nested=DELETE_STATE_DATA),
    ),
)
