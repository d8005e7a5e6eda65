"""StreamsGroupHeartbeatRequest (key 88), versions 0 to 0. Written by `codegen.messages`: do not edit."""

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


class CopartitionGroup(NamedTuple):
    """A part of it."""

    source_topics: tuple[int, ...] = ()
    source_topic_regex: tuple[int, ...] = ()
    repartition_source_topics: tuple[int, ...] = ()


COPARTITION_GROUP: Final = Layout(
    CopartitionGroup,
    (
        Field("source_topics", "int16", 0, 0, default=(), is_array=True),
        Field("source_topic_regex", "int16", 0, 0, default=(), is_array=True),
        Field("repartition_source_topics", "int16", 0, 0, default=(), is_array=True),
    ),
)


class Subtopology(NamedTuple):
    """A part of it."""

    subtopology_id: str = ""
    source_topics: tuple[str, ...] = ()
    source_topic_regex: tuple[str, ...] = ()
    state_changelog_topics: tuple[TopicInfo, ...] = ()
    repartition_sink_topics: tuple[str, ...] = ()
    repartition_source_topics: tuple[TopicInfo, ...] = ()
    copartition_groups: tuple[CopartitionGroup, ...] = ()


SUBTOPOLOGY: Final = Layout(
    Subtopology,
    (
        Field("subtopology_id", "string", 0, 0),
        Field("source_topics", "string", 0, 0, default=(), is_array=True),
        Field("source_topic_regex", "string", 0, 0, default=(), is_array=True),
        Field("state_changelog_topics", STRUCTURE, 0, 0, is_array=True, nested=TOPIC_INFO),
        Field("repartition_sink_topics", "string", 0, 0, default=(), is_array=True),
        Field("repartition_source_topics", STRUCTURE, 0, 0, is_array=True, nested=TOPIC_INFO),
        Field("copartition_groups", STRUCTURE, 0, 0, is_array=True, nested=COPARTITION_GROUP),
    ),
)


class Topology(NamedTuple):
    """A part of it."""

    epoch: int = 0
    subtopologies: tuple[Subtopology, ...] = ()


TOPOLOGY: Final = Layout(
    Topology,
    (
        Field("epoch", "int32", 0, 0),
        Field("subtopologies", STRUCTURE, 0, 0, is_array=True, nested=SUBTOPOLOGY),
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


class StreamsGroupHeartbeatRequest(NamedTuple):
    """The message."""

    group_id: str = ""
    member_id: str = ""
    member_epoch: int = 0
    endpoint_information_epoch: int = 0
    instance_id: str | None = None
    rack_id: str | None = None
    rebalance_timeout_ms: int = -1
    topology: Topology | None = None
    active_tasks: tuple[TaskIds, ...] | None = ()
    standby_tasks: tuple[TaskIds, ...] | None = ()
    warmup_tasks: tuple[TaskIds, ...] | None = ()
    process_id: str | None = None
    user_endpoint: Endpoint | None = None
    client_tags: tuple[KeyValue, ...] | None = ()
    task_offsets: tuple[TaskOffset, ...] | None = ()
    task_end_offsets: tuple[TaskOffset, ...] | None = ()
    shutdown_application: bool = False


LAYOUT: Final = Layout(
    StreamsGroupHeartbeatRequest,
    (
        Field("group_id", "string", 0, 0),
        Field("member_id", "string", 0, 0),
        Field("member_epoch", "int32", 0, 0),
        Field("endpoint_information_epoch", "int32", 0, 0),
        Field("instance_id", "string", 0, 0, default=None, nullable_from=0),
        Field("rack_id", "string", 0, 0, default=None, nullable_from=0),
        Field("rebalance_timeout_ms", "timedelta_i32", 0, 0, default=-1),
        Field("topology", STRUCTURE, 0, 0, default=None, nullable_from=0, nested=TOPOLOGY),
        Field("active_tasks", STRUCTURE, 0, 0, is_array=True, nullable_from=0, nested=TASK_IDS),
        Field("standby_tasks", STRUCTURE, 0, 0, is_array=True, nullable_from=0, nested=TASK_IDS),
        Field("warmup_tasks", STRUCTURE, 0, 0, is_array=True, nullable_from=0, nested=TASK_IDS),
        Field("process_id", "string", 0, 0, default=None, nullable_from=0),
        Field("user_endpoint", STRUCTURE, 0, 0, default=None, nullable_from=0, nested=ENDPOINT),
        Field("client_tags", STRUCTURE, 0, 0, is_array=True, nullable_from=0, nested=KEY_VALUE),
        Field("task_offsets", STRUCTURE, 0, 0, is_array=True, nullable_from=0, nested=TASK_OFFSET),
        Field("task_end_offsets", STRUCTURE, 0, 0, is_array=True, nullable_from=0, nested=TASK_OFFSET),
        Field("shutdown_application", "bool", 0, 0, default=False),
    ),
)
