"""DescribeClusterRequest (key 60), versions 0 to 2. Written by `codegen.messages`: do not edit."""

from typing import Final, NamedTuple

from millstream.wire.schema import Field, Layout


class DescribeClusterRequest(NamedTuple):
    """The message."""

    include_cluster_authorized_operations: bool = False
    endpoint_type: int = 1
    include_fenced_brokers: bool = False


LAYOUT: Final = Layout(
    DescribeClusterRequest,
    (
        Field("include_cluster_authorized_operations", "bool", 0, 2),
        Field("endpoint_type", "int8", 1, 2, default=1),
        Field("include_fenced_brokers", "bool", 2, 2),
    ),
)
