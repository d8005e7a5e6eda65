"""AlterPartitionReassignmentsRequest (key 45), versions 0 to 1. Written by `codegen.messages`: do not edit."""

from typing import Final, NamedTuple

from millstream.wire.schema import STRUCTURE, Field, Layout


class ReassignablePartition(NamedTuple):
    """A part of it."""

    partition_index: int = 0
    replicas: tuple[int, ...] | None = None


REASSIGNABLE_PARTITION: Final = Layout(
    ReassignablePartition,
    (
        Field("partition_index", "int32", 0, 1),
        Field("replicas", "int32", 0, 1, default=None, is_array=True, nullable_from=0),
    ),
)


class ReassignableTopic(NamedTuple):
    """A part of it."""

    name: str = ""
    partitions: tuple[ReassignablePartition, ...] = ()


REASSIGNABLE_TOPIC: Final = Layout(
    ReassignableTopic,
    (
        Field("name", "string", 0, 1),
        Field("partitions", STRUCTURE, 0, 1, is_array=True, nested=REASSIGNABLE_PARTITION),
    ),
)


class AlterPartitionReassignmentsRequest(NamedTuple):
    """The message."""

    timeout_ms: int = 60000
    allow_replication_factor_change: bool = True
    topics: tuple[ReassignableTopic, ...] = ()


LAYOUT: Final = Layout(
    AlterPartitionReassignmentsRequest,
    (
        Field("timeout_ms", "timedelta_i32", 0, 1, default=60000),
        Field("allow_replication_factor_change", "bool", 1, 1, default=True),
        Field("topics", STRUCTURE, 0, 1, is_array=True, nested=REASSIGNABLE_TOPIC),
    ),
)
