"""ReadShareGroupStateSummaryRequest (key 87), versions 0 to 1. Written by `codegen.messages`: do not edit."""

from typing import Final, NamedTuple
from uuid import UUID

from millstream.wire.schema import STRUCTURE, Field, Layout


class PartitionData(NamedTuple):
    """A part of it."""

    partition: int = 0
    leader_epoch: int = 0


PARTITION_DATA: Final = Layout(
    PartitionData,
    (
        Field("partition", "int32", 0, 1),
        Field("leader_epoch", "int32", 0, 1),
    ),
)


class ReadStateSummaryData(NamedTuple):
    """A part of it."""

    topic_id: UUID | None = None
    partitions: tuple[PartitionData, ...] = ()


READ_STATE_SUMMARY_DATA: Final = Layout(
    ReadStateSummaryData,
    (
        Field("topic_id", "uuid", 0, 1, nullable_from=0),
        Field("partitions", STRUCTURE, 0, 1, is_array=True, nested=PARTITION_DATA),
    ),
)


class ReadShareGroupStateSummaryRequest(NamedTuple):
    """The message."""

    group_id: str = ""
    topics: tuple[ReadStateSummaryData, ...] = ()


LAYOUT: Final = Layout(
    ReadShareGroupStateSummaryRequest,
    (
        Field("group_id", "string", 0, 1),
        Field("topics", STRUCTURE, 0, 1, is_array=True, nested=READ_STATE_SUMMARY_DATA),
    ),
)
