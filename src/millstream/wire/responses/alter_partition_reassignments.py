"""AlterPartitionReassignmentsResponse (key 45), versions 0 to 1. Written by `codegen.messages`: do not edit."""

from typing import Final, NamedTuple

from millstream.wire.schema import STRUCTURE, Field, Layout


class ReassignablePartitionResponse(NamedTuple):
    """A part of it."""

    partition_index: int = 0
    error_code: int = 0
    error_message: str | None = ""


REASSIGNABLE_PARTITION_RESPONSE: Final = Layout(
    ReassignablePartitionResponse,
    (
        Field("partition_index", "int32", 0, 1),
        Field("error_code", "error_code", 0, 1, default=0),
        Field("error_message", "string", 0, 1, nullable_from=0),
    ),
)


class ReassignableTopicResponse(NamedTuple):
    """A part of it."""

    name: str = ""
    partitions: tuple[ReassignablePartitionResponse, ...] = ()


REASSIGNABLE_TOPIC_RESPONSE: Final = Layout(
    ReassignableTopicResponse,
    (
        Field("name", "string", 0, 1),
        Field("partitions", STRUCTURE, 0, 1, is_array=True, nested=REASSIGNABLE_PARTITION_RESPONSE),
    ),
)


class AlterPartitionReassignmentsResponse(NamedTuple):
    """The message."""

    throttle_time_ms: int = 0
    allow_replication_factor_change: bool = True
    error_code: int = 0
    error_message: str | None = ""
    responses: tuple[ReassignableTopicResponse, ...] = ()


LAYOUT: Final = Layout(
    AlterPartitionReassignmentsResponse,
    (
        Field("throttle_time_ms", "timedelta_i32", 0, 1, default=0),
        Field("allow_replication_factor_change", "bool", 1, 1, default=True),
        Field("error_code", "error_code", 0, 1, default=0),
        Field("error_message", "string", 0, 1, nullable_from=0),
        Field("responses", STRUCTURE, 0, 1, is_array=True, nested=REASSIGNABLE_TOPIC_RESPONSE),
    ),
)
