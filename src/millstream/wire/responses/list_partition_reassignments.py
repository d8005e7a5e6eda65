"""ListPartitionReassignmentsResponse (key 46), versions 0 to 0. Written by `codegen.messages`: do not edit."""

from typing import Final, NamedTuple

from millstream.wire.schema import STRUCTURE, Field, Layout


class OngoingPartitionReassignment(NamedTuple):
    """A part of it."""

    partition_index: int = 0
    replicas: tuple[int, ...] = ()
    adding_replicas: tuple[int, ...] = ()
    removing_replicas: tuple[int, ...] = ()


ONGOING_PARTITION_REASSIGNMENT: Final = Layout(
    OngoingPartitionReassignment,
    (
        Field("partition_index", "int32", 0, 0),
        Field("replicas", "int32", 0, 0, default=(), is_array=True),
        Field("adding_replicas", "int32", 0, 0, default=(), is_array=True),
        Field("removing_replicas", "int32", 0, 0, default=(), is_array=True),
    ),
)


class OngoingTopicReassignment(NamedTuple):
    """A part of it."""

    name: str = ""
    partitions: tuple[OngoingPartitionReassignment, ...] = ()


ONGOING_TOPIC_REASSIGNMENT: Final = Layout(
    OngoingTopicReassignment,
    (
        Field("name", "string", 0, 0),
        Field("partitions", STRUCTURE, 0, 0, is_array=True, nested=ONGOING_PARTITION_REASSIGNMENT),
    ),
)


class ListPartitionReassignmentsResponse(NamedTuple):
    """The message."""

    throttle_time_ms: int = 0
    error_code: int = 0
    error_message: str | None = ""
    topics: tuple[OngoingTopicReassignment, ...] = ()


LAYOUT: Final = Layout(
    ListPartitionReassignmentsResponse,
    (
        Field("throttle_time_ms", "timedelta_i32", 0, 0, default=0),
        Field("error_code", "error_code", 0, 0, default=0),
        Field("error_message", "string", 0, 0, nullable_from=0),
        Field("topics", STRUCTURE, 0, 0, is_array=True, nested=ONGOING_TOPIC_REASSIGNMENT),
    ),
)
