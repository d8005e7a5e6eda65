"""DescribeClusterResponse (key 60), versions 0 to 2. Written by `codegen.messages`: do not edit."""

from typing import Final, NamedTuple

from millstream.wire.schema import STRUCTURE, Field, Layout


class DescribeClusterBroker(NamedTuple):
    """A part of it."""

    broker_id: int = 0
    host: str = ""
    port: int = 0
    rack: str | None = None
    is_fenced: bool = False


DESCRIBE_CLUSTER_BROKER: Final = Layout(
    DescribeClusterBroker,
    (
        Field("broker_id", "int32", 0, 2),
        Field("host", "string", 0, 2),
        Field("port", "int32", 0, 2),
        Field("rack", "string", 0, 2, default=None, nullable_from=0),
        Field("is_fenced", "bool", 2, 2),
    ),
)


class DescribeClusterResponse(NamedTuple):
    """The message."""

    throttle_time_ms: int = 0
    error_code: int = 0
    error_message: str | None = None
    endpoint_type: int = 1
    cluster_id: str = ""
    controller_id: int = -1
    brokers: tuple[DescribeClusterBroker, ...] = ()
    cluster_authorized_operations: int = -2147483648


LAYOUT: Final = Layout(
    DescribeClusterResponse,
    (
        Field("throttle_time_ms", "timedelta_i32", 0, 2, default=0),
        Field("error_code", "error_code", 0, 2, default=0),
        Field("error_message", "string", 0, 2, default=None, nullable_from=0),
        Field("endpoint_type", "int8", 1, 2, default=1),
        Field("cluster_id", "string", 0, 2),
        Field("controller_id", "int32", 0, 2, default=-1),
        Field("brokers", STRUCTURE, 0, 2, is_array=True, nested=DESCRIBE_CLUSTER_BROKER),
        Field("cluster_authorized_operations", "int32", 0, 2, default=-2147483648),
    ),
)
