"""MetadataResponse (key 3), versions 0 to 13. Written by `codegen.messages`: do not edit."""

from typing import Final, NamedTuple
from uuid import UUID

from millstream.wire.schema import STRUCTURE, Field, Layout


class MetadataResponseBroker(NamedTuple):
    """A part of it."""

    node_id: int = 0
    host: str = ""
    port: int = 0
    rack: str | None = None


METADATA_RESPONSE_BROKER: Final = Layout(
    MetadataResponseBroker,
    (
        Field("node_id", "int32", 0, 13),
        Field("host", "string", 0, 13),
        Field("port", "int32", 0, 13),
        Field("rack", "string", 1, 13, default=None, nullable_from=1),
    ),
)


class MetadataResponsePartition(NamedTuple):
    """A part of it."""

    error_code: int = 0
    partition_index: int = 0
    leader_id: int = 0
    leader_epoch: int = -1
    replica_nodes: tuple[int, ...] = ()
    isr_nodes: tuple[int, ...] = ()
    offline_replicas: tuple[int, ...] = ()


METADATA_RESPONSE_PARTITION: Final = Layout(
    MetadataResponsePartition,
    (
        Field("error_code", "error_code", 0, 13, default=0),
        Field("partition_index", "int32", 0, 13),
        Field("leader_id", "int32", 0, 13),
        Field("leader_epoch", "int32", 7, 13, default=-1),
        Field("replica_nodes", "int32", 0, 13, default=(), is_array=True),
        Field("isr_nodes", "int32", 0, 13, default=(), is_array=True),
        Field("offline_replicas", "int32", 5, 13, default=(), is_array=True),
    ),
)


class MetadataResponseTopic(NamedTuple):
    """A part of it."""

    error_code: int = 0
    name: str | None = ""
    topic_id: UUID | None = None
    is_internal: bool = False
    partitions: tuple[MetadataResponsePartition, ...] = ()
    topic_authorized_operations: int = -2147483648


METADATA_RESPONSE_TOPIC: Final = Layout(
    MetadataResponseTopic,
    (
        Field("error_code", "error_code", 0, 13, default=0),
        Field("name", "string", 0, 13, nullable_from=12),
        Field("topic_id", "uuid", 10, 13, nullable_from=10),
        Field("is_internal", "bool", 1, 13, default=False),
        Field("partitions", STRUCTURE, 0, 13, is_array=True, nested=METADATA_RESPONSE_PARTITION),
        Field("topic_authorized_operations", "int32", 8, 13, default=-2147483648),
    ),
)


class MetadataResponse(NamedTuple):
    """The message."""

    throttle_time_ms: int = 0
    brokers: tuple[MetadataResponseBroker, ...] = ()
    cluster_id: str | None = None
    controller_id: int = -1
    topics: tuple[MetadataResponseTopic, ...] = ()
    error_code: int = 0
    cluster_authorized_operations: int = -2147483648


LAYOUT: Final = Layout(
    MetadataResponse,
    (
        Field("throttle_time_ms", "timedelta_i32", 3, 13, default=0),
        Field("brokers", STRUCTURE, 0, 13, is_array=True, nested=METADATA_RESPONSE_BROKER),
        Field("cluster_id", "string", 2, 13, default=None, nullable_from=2),
        Field("controller_id", "int32", 1, 13, default=-1),
        Field("topics", STRUCTURE, 0, 13, is_array=True, nested=METADATA_RESPONSE_TOPIC),
        Field("error_code", "error_code", 13, 13, default=0),
        Field("cluster_authorized_operations", "int32", 8, 10, default=-2147483648),
    ),
)
