"""OffsetForLeaderEpochRequest (key 23), versions 2 to 4. Written by `codegen.messages`: do not edit."""

from typing import Final, NamedTuple

from millstream.wire.schema import STRUCTURE, Field, Layout


class OffsetForLeaderPartition(NamedTuple):
    """A part of it."""

    partition: int = 0
    current_leader_epoch: int = -1
    leader_epoch: int = 0


OFFSET_FOR_LEADER_PARTITION: Final = Layout(
    OffsetForLeaderPartition,
    (
        Field("partition", "int32", 2, 4),
        Field("current_leader_epoch", "int32", 2, 4, default=-1),
        Field("leader_epoch", "int32", 2, 4),
    ),
)


class OffsetForLeaderTopic(NamedTuple):
    """A part of it."""

    topic: str = ""
    partitions: tuple[OffsetForLeaderPartition, ...] = ()


OFFSET_FOR_LEADER_TOPIC: Final = Layout(
    OffsetForLeaderTopic,
    (
        Field("topic", "string", 2, 4),
        Field("partitions", STRUCTURE, 2, 4, is_array=True, nested=OFFSET_FOR_LEADER_PARTITION),
    ),
)


class OffsetForLeaderEpochRequest(NamedTuple):
    """The message."""

    replica_id: int = -2
    topics: tuple[OffsetForLeaderTopic, ...] = ()


LAYOUT: Final = Layout(
    OffsetForLeaderEpochRequest,
    (
        Field("replica_id", "int32", 3, 4, default=-2),
        Field("topics", STRUCTURE, 2, 4, is_array=True, nested=OFFSET_FOR_LEADER_TOPIC),
    ),
)
