"""CreateTopicsRequest (key 19), versions 2 to 7. Written by `codegen.messages`: do not edit."""

from typing import Final, NamedTuple

from millstream.wire.schema import STRUCTURE, Field, Layout


class CreatableReplicaAssignment(NamedTuple):
    """A part of it."""

    partition_index: int = 0
    broker_ids: tuple[int, ...] = ()


CREATABLE_REPLICA_ASSIGNMENT: Final = Layout(
    CreatableReplicaAssignment,
    (
        Field("partition_index", "int32", 2, 7),
        Field("broker_ids", "int32", 2, 7, default=(), is_array=True),
    ),
)


class CreatableTopicConfig(NamedTuple):
    """A part of it."""

    name: str = ""
    value: str | None = ""


CREATABLE_TOPIC_CONFIG: Final = Layout(
    CreatableTopicConfig,
    (
        Field("name", "string", 2, 7),
        Field("value", "string", 2, 7, nullable_from=2),
    ),
)


class CreatableTopic(NamedTuple):
    """A part of it."""

    name: str = ""
    num_partitions: int = 0
    replication_factor: int = 0
    assignments: tuple[CreatableReplicaAssignment, ...] = ()
    configs: tuple[CreatableTopicConfig, ...] = ()


CREATABLE_TOPIC: Final = Layout(
    CreatableTopic,
    (
        Field("name", "string", 2, 7),
        Field("num_partitions", "int32", 2, 7),
        Field("replication_factor", "int16", 2, 7),
        Field("assignments", STRUCTURE, 2, 7, is_array=True, nested=CREATABLE_REPLICA_ASSIGNMENT),
        Field("configs", STRUCTURE, 2, 7, is_array=True, nested=CREATABLE_TOPIC_CONFIG),
    ),
)


class CreateTopicsRequest(NamedTuple):
    """The message."""

    topics: tuple[CreatableTopic, ...] = ()
    timeout_ms: int = 60000
    validate_only: bool = False


LAYOUT: Final = Layout(
    CreateTopicsRequest,
    (
        Field("topics", STRUCTURE, 2, 7, is_array=True, nested=CREATABLE_TOPIC),
        Field("timeout_ms", "timedelta_i32", 2, 7, default=60000),
        Field("validate_only", "bool", 2, 7, default=False),
    ),
)
