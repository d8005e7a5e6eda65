"""StreamsGroupDescribeResponse (key 89), versions 0 to 0. Written by `codegen.messages`: do not edit."""

from typing import Final, NamedTuple

from millstream.wire.schema import STRUCTURE, Field, Layout


class KeyValue(NamedTuple):
    """A part of it."""

    key: str = ""
    value: str = ""


KEY_VALUE: Final = Layout(
    KeyValue,
    (
        Field("key", "string", 0, 0),
        Field("value", "string", 0, 0),
    ),
)


class TopicInfo(NamedTuple):
    """A part of it."""

    name: str = ""
    partitions: int = 0
    replication_factor: int = 0
    topic_configs: tuple[KeyValue, ...] = ()


TOPIC_INFO: Final = Layout(
    TopicInfo,
    (
        Field("name", "string", 0, 0),
        Field("partitions", "int32", 0, 0),
        Field("replication_factor", "int16", 0, 0),
        Field("topic_configs", STRUCTURE, 0, 0, is_array=True, nested=KEY_VALUE),
    ),
)


class Subtopology(NamedTuple):
    """A part of it."""

    subtopology_id: str = ""
    source_topics: tuple[str, ...] = ()
    repartition_sink_topics: tuple[str, ...] = ()
    state_changelog_topics: tuple[TopicInfo, ...] = ()
    repartition_source_topics: tuple[TopicInfo, ...] = ()


SUBTOPOLOGY: Final = Layout(
    Subtopology,
    (
        Field("subtopology_id", "string", 0, 0),
        Field("source_topics", "string", 0, 0, default=(), is_array=True),
        Field("repartition_sink_topics", "string", 0, 0, default=(), is_array=True),
        Field("state_changelog_topics", STRUCTURE, 0, 0, is_array=True, nested=TOPIC_INFO),
        Field("repartition_source_topics", STRUCTURE, 0, 0, is_array=True, nested=TOPIC_INFO),
    ),
)


class Topology(NamedTuple):
    """A part of it."""

    epoch: int = 0
    subtopologies: tuple[Subtopology, ...] | None = ()


TOPOLOGY: Final = Layout(
    Topology,
    (
        Field("epoch", "int32", 0, 0),
        Field("subtopologies", STRUCTURE, 0, 0, is_array=True, nullable_from=0, nested=SUBTOPOLOGY),
    ),
)


class Endpoint(NamedTuple):
    """A part of it."""

    host: str = ""
    port: int = 0


ENDPOINT: Final = Layout(
    Endpoint,
    (
        Field("host", "string", 0, 0),
        Field("port", "uint16", 0, 0),
    ),
)


class TaskOffset(NamedTuple):
    """A part of it."""

    subtopology_id: str = ""
    partition: int = 0
    offset: int = 0


TASK_OFFSET: Final = Layout(
    TaskOffset,
    (
        Field("subtopology_id", "string", 0, 0),
        Field("partition", "int32", 0, 0),
        Field("offset", "int64", 0, 0),
    ),
)


class TaskIds(NamedTuple):
    """A part of it."""

    subtopology_id: str = ""
    partitions: tuple[int, ...] = ()


TASK_IDS: Final = Layout(
    TaskIds,
    (
        Field("subtopology_id", "string", 0, 0),
        Field("partitions", "int32", 0, 0, default=(), is_array=True),
    ),
)


class Assignment(NamedTuple):
    """A part of it."""

    active_tasks: tuple[TaskIds, ...] = ()
    standby_tasks: tuple[TaskIds, ...] = ()
    warmup_tasks: tuple[TaskIds, ...] = ()


ASSIGNMENT: Final = Layout(
    Assignment,
    (
        Field("active_tasks", STRUCTURE, 0, 0, is_array=True, nested=TASK_IDS),
        Field("standby_tasks", STRUCTURE, 0, 0, is_array=True, nested=TASK_IDS),
        Field("warmup_tasks", STRUCTURE, 0, 0, is_array=True, nested=TASK_IDS),
    ),
)


class Member(NamedTuple):
    """A part of it."""

    member_id: str = ""
    member_epoch: int = 0
    instance_id: str | None = None
    rack_id: str | None = None
    client_id: str = ""
    client_host: str = ""
    topology_epoch: int = 0
    process_id: str = ""
    user_endpoint: Endpoint | None = None
    client_tags: tuple[KeyValue, ...] = ()
    task_offsets: tuple[TaskOffset, ...] = ()
    task_end_offsets: tuple[TaskOffset, ...] = ()
    assignment: Assignment = Assignment()
    target_assignment: Assignment = Assignment()
    is_classic: bool = False


MEMBER: Final = Layout(
    Member,
    (
        Field("member_id", "string", 0, 0),
        Field("member_epoch", "int32", 0, 0),
        Field("instance_id", "string", 0, 0, default=None, nullable_from=0),
        Field("rack_id", "string", 0, 0, default=None, nullable_from=0),
        Field("client_id", "string", 0, 0),
        Field("client_host", "string", 0, 0),
        Field("topology_epoch", "int32", 0, 0),
        Field("process_id", "string", 0, 0),
        Field("user_endpoint", STRUCTURE, 0, 0, default=None, nullable_from=0, nested=ENDPOINT),
        Field("client_tags", STRUCTURE, 0, 0, is_array=True, nested=KEY_VALUE),
        Field("task_offsets", STRUCTURE, 0, 0, is_array=True, nested=TASK_OFFSET),
        Field("task_end_offsets", STRUCTURE, 0, 0, is_array=True, nested=TASK_OFFSET),
        Field("assignment", STRUCTURE, 0, 0, nested=ASSIGNMENT),
        Field("target_assignment", STRUCTURE, 0, 0, nested=ASSIGNMENT),
        Field("is_classic", "bool", 0, 0),
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
    topology: Topology | None = None
    members: tuple[Member, ...] = ()
    authorized_operations: int = -2147483648


DESCRIBED_GROUP: Final = Layout(
    DescribedGroup,
    (
        Field("error_code", "error_code", 0, 0, default=0),
        Field("error_message", "string", 0, 0, default=None, nullable_from=0),
        Field("group_id", "string", 0, 0),
        Field("group_state", "string", 0, 0),
        Field("group_epoch", "int32", 0, 0),
        Field("assignment_epoch", "int32", 0, 0),
        Field("topology", STRUCTURE, 0, 0, default=None, nullable_from=0, nested=TOPOLOGY),
        Field("members", STRUCTURE, 0, 0, is_array=True, nested=MEMBER),
        Field("authorized_operations", "int32", 0, 0, default=-2147483648),
    ),
)


class StreamsGroupDescribeResponse(NamedTuple):
    """The message."""

    throttle_time_ms: int = 0
    groups: tuple[DescribedGroup, ...] = ()


LAYOUT: Final = Layout(
    StreamsGroupDescribeResponse,
    (
        Field("throttle_time_ms", "timedelta_i32", 0, 0, default=0),
        Field("groups", STRUCTURE, 0, 0, is_array=True, nested=DESCRIBED_GROUP),
    ),
)
