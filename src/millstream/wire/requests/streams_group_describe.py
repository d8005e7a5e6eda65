"""StreamsGroupDescribeRequest (key 89), versions 0 to 0. Written by `codegen.messages`: do not edit."""

from typing import Final, NamedTuple

from millstream.wire.schema import Field, Layout


class StreamsGroupDescribeRequest(NamedTuple):
    """The message."""

    group_ids: tuple[str, ...] = ()
    include_authorized_operations: bool = False


LAYOUT: Final = Layout(
    StreamsGroupDescribeRequest,
    (
        Field("group_ids", "string", 0, 0, default=(), is_array=True),
        Field("include_authorized_operations", "bool", 0, 0),
    ),
)
