"""ListOffsetsRequest (key 2), versions 1 to 11. Written by `codegen.messages`: do not edit."""

from typing import Final, NamedTuple

from millstream.wire.schema import STRUCTURE, Field, Layout


class ListOffsetsPartition(NamedTuple):
    """A part of it."""

    partition_index: int = 0
    current_leader_epoch: int = -1
    timestamp: int = 0


LIST_OFFSETS_PARTITION: Final = Layout(
    ListOffsetsPartition,
    (
        Field("partition_index", "int32", 1, 11),
        Field("current_leader_epoch", "int32", 4, 11, default=-1),
        Field("timestamp", "int64", 1, 11),
    ),
)


class ListOffsetsTopic(NamedTuple):
    """A part of it."""

    name: str = ""
    partitions: tuple[ListOffsetsPartition, ...] = ()


LIST_OFFSETS_TOPIC: Final = Layout(
    ListOffsetsTopic,
    (
        Field("name", "string", 1, 11),
        Field("partitions", STRUCTURE, 1, 11, is_array=True, nested=LIST_OFFSETS_PARTITION),
    ),
)


class ListOffsetsRequest(NamedTuple):
    """The message."""

    replica_id: int = 0
    isolation_level: int = 0
    topics: tuple[ListOffsetsTopic, ...] = ()
    timeout_ms: int = 0


LAYOUT: Final = Layout(
    ListOffsetsRequest,
    (
        Field("replica_id", "int32", 1, 11),
        Field("isolation_level", "int8", 2, 11),
        Field("topics", STRUCTURE, 1, 11, is_array=True, nested=LIST_OFFSETS_TOPIC),
        Field("timeout_ms", "timedelta_i32", 10, 11),
    ),
)
