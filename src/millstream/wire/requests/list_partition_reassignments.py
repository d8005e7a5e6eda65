"""ListPartitionReassignmentsRequest (key 46), versions 0 to 0. Written by `codegen.messages`: do not edit."""

from typing import Final, NamedTuple

from millstream.wire.schema import STRUCTURE, Field, Layout


class ListPartitionReassignmentsTopics(NamedTuple):
    """A part of it."""

    name: str = ""
    partition_indexes: tuple[int, ...] = ()


LIST_PARTITION_REASSIGNMENTS_TOPICS: Final = Layout(
    ListPartitionReassignmentsTopics,
    (
        Field("name", "string", 0, 0),
        Field("partition_indexes", "int32", 0, 0, default=(), is_array=True),
    ),
)


class ListPartitionReassignmentsRequest(NamedTuple):
    """The message."""

    timeout_ms: int = 60000
    topics: tuple[ListPartitionReassignmentsTopics, ...] | None = ()


LAYOUT: Final = Layout(
    ListPartitionReassignmentsRequest,
    (
        Field("timeout_ms", "timedelta_i32", 0, 0, default=60000),
        Field("topics", STRUCTURE, 0, 0, is_array=True, nullable_from=0, nested=LIST_PARTITION_REASSIGNMENTS_TOPICS),
    ),
)
