"""ConsumerGroupDescribeResponse (key 69), versions 0 to 1. Written by `codegen.messages`: do not edit."""

from typing import Final, NamedTuple
from uuid import UUID

from millstream.wire.schema import STRUCTURE, Field, Layout


class TopicPartitions(NamedTuple):
    """A part of it."""

    topic_id: UUID | None = None
    topic_name: str = ""
    partitions: tuple[int, ...] = ()


TOPIC_PARTITIONS: Final = Layout(
    TopicPartitions,
    (
        Field("topic_id", "uuid", 0, 1, nullable_from=0),
        Field("topic_name", "string", 0, 1),
        Field("partitions", "int32", 0, 1, default=(), is_array=True),
    ),
)


class Assignment(NamedTuple):
    """A part of it."""

    topic_partitions: tuple[TopicPartitions, ...] = ()


ASSIGNMENT: Final = Layout(
    Assignment,
    (Field("topic_partitions", STRUCTURE, 0, 1, is_array=True, nested=TOPIC_PARTITIONS),),
)


class Member(NamedTuple):
    """A part of it."""

    member_id: str = ""
    instance_id: str | None = None
    rack_id: str | None = None
    member_epoch: int = 0
    client_id: str = ""
    client_host: str = ""
    subscribed_topic_names: tuple[str, ...] = ()
    subscribed_topic_regex: str | None = None
    assignment: Assignment = Assignment()
    target_assignment: Assignment = Assignment()
    member_type: int = -1


MEMBER: Final = Layout(
    Member,
    (
        Field("member_id", "string", 0, 1),
        Field("instance_id", "string", 0, 1, default=None, nullable_from=0),
        Field("rack_id", "string", 0, 1, default=None, nullable_from=0),
        Field("member_epoch", "int32", 0, 1),
        Field("client_id", "string", 0, 1),
        Field("client_host", "string", 0, 1),
        Field("subscribed_topic_names", "string", 0, 1, default=(), is_array=True),
        Field("subscribed_topic_regex", "string", 0, 1, default=None, nullable_from=0),
        Field("assignment", STRUCTURE, 0, 1, nested=ASSIGNMENT),
        Field("target_assignment", STRUCTURE, 0, 1, nested=ASSIGNMENT),
        Field("member_type", "int8", 1, 1, default=-1),
    ),
)


class DescribedGroup(NamedTuple):
    """A part of it."""

    error_code: int = 0
    error_message: str | None = None
    group_id: str = ""
    group_state: str = ""
    group_epoch: int = 0
    assignment_epoch: int = 0
    assignor_name: str = ""
    members: tuple[Member, ...] = ()
    authorized_operations: int = -2147483648


DESCRIBED_GROUP: Final = Layout(
    DescribedGroup,
    (
        Field("error_code", "error_code", 0, 1, default=0),
        Field("error_message", "string", 0, 1, default=None, nullable_from=0),
        Field("group_id", "string", 0, 1),
        Field("group_state", "string", 0, 1),
        Field("group_epoch", "int32", 0, 1),
        Field("assignment_epoch", "int32", 0, 1),
        Field("assignor_name", "string", 0, 1),
        Field("members", STRUCTURE, 0, 1, is_array=True, nested=MEMBER),
        Field("authorized_operations", "int32", 0, 1, default=-2147483648),
    ),
)


class ConsumerGroupDescribeResponse(NamedTuple):
    """The message."""

    throttle_time_ms: int = 0
    groups: tuple[DescribedGroup, ...] = ()


LAYOUT: Final = Layout(
    ConsumerGroupDescribeResponse,
    (
        Field("throttle_time_ms", "timedelta_i32", 0, 1, default=0),
        Field("groups", STRUCTURE, 0, 1, is_array=True, nested=DESCRIBED_GROUP),
    ),
)
