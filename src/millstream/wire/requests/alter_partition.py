"""AlterPartitionRequest (key 56), versions 2 to 3. Written by `codegen.messages`: do not edit."""

from typing import Final, NamedTuple
from uuid import UUID

from millstream.wire.schema import STRUCTURE, Field, Layout


class BrokerState(NamedTuple):
    """A part of it."""

    broker_id: int = 0
    broker_epoch: int = -1


BROKER_STATE: Final = Layout(
    BrokerState,
    (
        Field("broker_id", "int32", 3, 3),
        Field("broker_epoch", "int64", 3, 3, default=-1),
    ),
)


class PartitionData(NamedTuple):
    """A part of it."""

    partition_index: int = 0
    leader_epoch: int = 0
    new_isr_with_epochs: tuple[BrokerState, ...] = ()
    new_isr: tuple[int, ...] = ()
    leader_recovery_state: int = 0
    partition_epoch: int = 0


PARTITION_DATA: Final = Layout(
    PartitionData,
    (
        Field("partition_index", "int32", 2, 3),
        Field("leader_epoch", "int32", 2, 3),
        Field("new_isr_with_epochs", STRUCTURE, 3, 3, is_array=True, nested=BROKER_STATE),
        Field("new_isr", "int32", 2, 2, default=(), is_array=True),
        Field("leader_recovery_state", "int8", 2, 3, default=0),
        Field("partition_epoch", "int32", 2, 3),
    ),
)


class TopicData(NamedTuple):
    """A part of it."""

    topic_id: UUID | None = None
    partitions: tuple[PartitionData, ...] = ()


TOPIC_DATA: Final = Layout(
    TopicData,
    (
        Field("topic_id", "uuid", 2, 3, nullable_from=2),
        Field("partitions", STRUCTURE, 2, 3, is_array=True, nested=PARTITION_DATA),
    ),
)


class AlterPartitionRequest(NamedTuple):
    """The message."""

    broker_id: int = 0
    broker_epoch: int = -1
    topics: tuple[TopicData, ...] = ()


LAYOUT: Final = Layout(
    AlterPartitionRequest,
    (
        Field("broker_id", "int32", 2, 3),
        Field("broker_epoch", "int64", 2, 3, default=-1),
        Field("topics", STRUCTURE, 2, 3, is_array=True, nested=TOPIC_DATA),
    ),
)
