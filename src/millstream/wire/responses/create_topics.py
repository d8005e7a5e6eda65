"""CreateTopicsResponse (key 19), versions 2 to 7. Written by `codegen.messages`: do not edit."""

from typing import Final, NamedTuple
from uuid import UUID

from millstream.wire.schema import STRUCTURE, Field, Layout


class CreatableTopicConfigs(NamedTuple):
    """A part of it."""

    name: str = ""
    value: str | None = ""
    read_only: bool = False
    config_source: int = -1
    is_sensitive: bool = False


CREATABLE_TOPIC_CONFIGS: Final = Layout(
    CreatableTopicConfigs,
    (
        Field("name", "string", 5, 7),
        Field("value", "string", 5, 7, nullable_from=5),
        Field("read_only", "bool", 5, 7),
        Field("config_source", "int8", 5, 7, default=-1),
        Field("is_sensitive", "bool", 5, 7),
    ),
)


class CreatableTopicResult(NamedTuple):
    """A part of it."""

    name: str = ""
    topic_id: UUID | None = None
    error_code: int = 0
    error_message: str | None = ""
    topic_config_error_code: int = 0
    num_partitions: int = -1
    replication_factor: int = -1
    configs: tuple[CreatableTopicConfigs, ...] | None = ()


CREATABLE_TOPIC_RESULT: Final = Layout(
    CreatableTopicResult,
    (
        Field("name", "string", 2, 7),
        Field("topic_id", "uuid", 7, 7, nullable_from=7),
        Field("error_code", "error_code", 2, 7, default=0),
        Field("error_message", "string", 2, 7, nullable_from=2),
        Field("topic_config_error_code", "int16", 5, 7, default=0, tag=0),
        Field("num_partitions", "int32", 5, 7, default=-1),
        Field("replication_factor", "int16", 5, 7, default=-1),
        Field("configs", STRUCTURE, 5, 7, is_array=True, nullable_from=5, nested=CREATABLE_TOPIC_CONFIGS),
    ),
)


class CreateTopicsResponse(NamedTuple):
    """The message."""

    throttle_time_ms: int = 0
    topics: tuple[CreatableTopicResult, ...] = ()


LAYOUT: Final = Layout(
    CreateTopicsResponse,
    (
        Field("throttle_time_ms", "timedelta_i32", 2, 7, default=0),
        Field("topics", STRUCTURE, 2, 7, is_array=True, nested=CREATABLE_TOPIC_RESULT),
    ),
)
