"""ConsumerGroupDescribeRequest (key 69), versions 0 to 1. Written by `codegen.messages`: do not edit."""

from typing import Final, NamedTuple

from millstream.wire.schema import Field, Layout


class ConsumerGroupDescribeRequest(NamedTuple):
    """The message."""

    group_ids: tuple[str, ...] = ()
    include_authorized_operations: bool = False


LAYOUT: Final = Layout(
    ConsumerGroupDescribeRequest,
    (
        Field("group_ids", "string", 0, 1, default=(), is_array=True),
        Field("include_authorized_operations", "bool", 0, 1),
    ),
)
