"""WriteShareGroupStateRequest (key 85), versions 0 to 1. Written by `codegen.messages`: do not edit."""

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
        Field("first_offset", "int64", 0, 1),
        Field("last_offset", "int64", 0, 1),
        Field("delivery_state", "int8", 0, 1),
        Field("delivery_count", "int16", 0, 1),
    ),
)


class PartitionData(NamedTuple):
    """A part of it."""

    partition: int = 0
    state_epoch: int = 0
    leader_epoch: int = 0
    start_offset: int = 0
    delivery_complete_count: int = -1
    state_batches: tuple[StateBatch, ...] = ()


PARTITION_DATA: Final = Layout(
    PartitionData,
    (
        Field("partition", "int32", 0, 1),
        Field("state_epoch", "int32", 0, 1),
        Field("leader_epoch", "int32", 0, 1),
        Field("start_offset", "int64", 0, 1),
        Field("delivery_complete_count", "int32", 1, 1, default=-1),
        Field("state_batches", STRUCTURE, 0, 1, is_array=True, nested=STATE_BATCH),
    ),
)


class WriteStateData(NamedTuple):
    """A part of it."""

    topic_id: UUID | None = None
    partitions: tuple[PartitionData, ...] = ()


WRITE_STATE_DATA: Final = Layout(
    WriteStateData,
    (
        Field("topic_id", "uuid", 0, 1, nullable_from=0),
        Field("partitions", STRUCTURE, 0, 1, is_array=True, nested=PARTITION_DATA),
    ),
)


class WriteShareGroupStateRequest(NamedTuple):
    """The message."""

    group_id: str = ""
    topics: tuple[WriteStateData, ...] = ()


LAYOUT: Final = Layout(
    WriteShareGroupStateRequest,
    (
        Field("group_id", "string", 0, 1),
        Field("topics", STRUCTURE, 0, 1, is_array=True, nested=WRITE_STATE_DATA),
    ),
)
