"""StreamsGroupHeartbeatResponse (key 88), versions 0 to 0. Written by `codegen.messages`: do not edit."""

from typing import Final, NamedTuple

from millstream.wire.schema import STRUCTURE, Field, Layout


class Status(NamedTuple):
    """A part of it."""

    status_code: int = 0
    status_detail: str = ""


STATUS: Final = Layout(
    Status,
    (
        Field("status_code", "int8", 0, 0),
        Field("status_detail", "string", 0, 0),
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


class TopicPartition(NamedTuple):
    """A part of it."""

    topic: str = ""
    partitions: tuple[int, ...] = ()


TOPIC_PARTITION: Final = Layout(
    TopicPartition,
    (
        Field("topic", "string", 0, 0),
        Field("partitions", "int32", 0, 0, default=(), is_array=True),
    ),
)


class EndpointToPartitions(NamedTuple):
    """A part of it."""

    user_endpoint: Endpoint = Endpoint()
    active_partitions: tuple[TopicPartition, ...] = ()
    standby_partitions: tuple[TopicPartition, ...] = ()


ENDPOINT_TO_PARTITIONS: Final = Layout(
    EndpointToPartitions,
    (
        Field("user_endpoint", STRUCTURE, 0, 0, nested=ENDPOINT),
        Field("active_partitions", STRUCTURE, 0, 0, is_array=True, nested=TOPIC_PARTITION),
        Field("standby_partitions", STRUCTURE, 0, 0, is_array=True, nested=TOPIC_PARTITION),
    ),
)


class StreamsGroupHeartbeatResponse(NamedTuple):
    """The message."""

    throttle_time_ms: int = 0
    error_code: int = 0
    error_message: str | None = None
    member_id: str = ""
    member_epoch: int = 0
    heartbeat_interval_ms: int = 0
    acceptable_recovery_lag: int = 0
    task_offset_interval_ms: int = 0
    status: tuple[Status, ...] | None = ()
    active_tasks: tuple[TaskIds, ...] | None = ()
    standby_tasks: tuple[TaskIds, ...] | None = ()
    warmup_tasks: tuple[TaskIds, ...] | None = ()
    endpoint_information_epoch: int = 0
    partitions_by_user_endpoint: tuple[EndpointToPartitions, ...] | None = ()


LAYOUT: Final = Layout(
    StreamsGroupHeartbeatResponse,
    (
        Field("throttle_time_ms", "timedelta_i32", 0, 0, default=0),
        Field("error_code", "error_code", 0, 0, default=0),
        Field("error_message", "string", 0, 0, default=None, nullable_from=0),
        Field("member_id", "string", 0, 0),
        Field("member_epoch", "int32", 0, 0),
        Field("heartbeat_interval_ms", "timedelta_i32", 0, 0),
        Field("acceptable_recovery_lag", "int32", 0, 0),
        Field("task_offset_interval_ms", "timedelta_i32", 0, 0),
        Field("status", STRUCTURE, 0, 0, is_array=True, nullable_from=0, nested=STATUS),
        Field("active_tasks", STRUCTURE, 0, 0, is_array=True, nullable_from=0, nested=TASK_IDS),
        Field("standby_tasks", STRUCTURE, 0, 0, is_array=True, nullable_from=0, nested=TASK_IDS),
        Field("warmup_tasks", STRUCTURE, 0, 0, is_array=True, nullable_from=0, nested=TASK_IDS),
        Field("endpoint_information_epoch", "int32", 0, 0),
        Field("partitions_by_user_endpoint", STRUCTURE, 0, 0, is_array=True, nullable_from=0, nested=ENDPOINT_TO_PARTITIONS),
    ),
)
