"""DescribeGroupsRequest (key 15), versions 0 to 6. Written by `codegen.messages`: do not edit."""

from typing import Final, NamedTuple

from millstream.wire.schema import Field, Layout


class DescribeGroupsRequest(NamedTuple):
    """The message."""

    groups: tuple[str, ...] = ()
    include_authorized_operations: bool = False


LAYOUT: Final = Layout(
    DescribeGroupsRequest,
    (
        Field("groups", "string", 0, 6, default=(), is_array=True),
        Field("include_authorized_operations", "bool", 3, 6),
    ),
)
