"""ShareGroupDescribeRequest (key 77), versions 1 to 1. Written by `codegen.messages`: do not edit."""

from typing import Final, NamedTuple

from millstream.wire.schema import Field, Layout


class ShareGroupDescribeRequest(NamedTuple):
    """The message."""

    group_ids: tuple[str, ...] = ()
    include_authorized_operations: bool = False


LAYOUT: Final = Layout(
    ShareGroupDescribeRequest,
    (
        Field("group_ids", "string", 1, 1, default=(), is_array=True),
        Field("include_authorized_operations", "bool", 1, 1),
    ),
)
