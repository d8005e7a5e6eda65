"""CreatePartitionsRequest (key 37), versions 0 to 3. Written by `codegen.messages`: do not edit."""

from typing import Final, NamedTuple

from millstream.wire.schema import STRUCTURE, Field, Layout


class CreatePartitionsAssignment(NamedTuple):
    """A part of it."""

    broker_ids: tuple[int, ...] = ()


CREATE_PARTITIONS_ASSIGNMENT: Final = Layout(
    CreatePartitionsAssignment,
    (Field("broker_ids", "int32", 0, 3, default=(), is_array=True),),
)


class CreatePartitionsTopic(NamedTuple):
    """A part of it."""

    name: str = ""
    count: int = 0  # type: ignore[assignment]  # hides a method of tuples that is not called
    assignments: tuple[CreatePartitionsAssignment, ...] | None = ()


CREATE_PARTITIONS_TOPIC: Final = Layout(
    CreatePartitionsTopic,
    (
        Field("name", "string", 0, 3),
        Field("count", "int32", 0, 3),
        Field("assignments", STRUCTURE, 0, 3, is_array=True, nullable_from=0, nested=CREATE_PARTITIONS_ASSIGNMENT),
    ),
)


class CreatePartitionsRequest(NamedTuple):
    """The message."""

    topics: tuple[CreatePartitionsTopic, ...] = ()
    timeout_ms: int = 0
    validate_only: bool = False


LAYOUT: Final = Layout(
    CreatePartitionsRequest,
    (
        Field("topics", STRUCTURE, 0, 3, is_array=True, nested=CREATE_PARTITIONS_TOPIC),
        Field("timeout_ms", "timedelta_i32", 0, 3),
        Field("validate_only", "bool", 0, 3),
    ),
)
