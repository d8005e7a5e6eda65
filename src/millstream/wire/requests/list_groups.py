"""ListGroupsRequest (key 16), versions 0 to 5. Written by `codegen.messages`: do not edit."""

from typing import Final, NamedTuple

from millstream.wire.schema import Field, Layout


class ListGroupsRequest(NamedTuple):
    """The message."""

    states_filter: tuple[str, ...] = ()
    types_filter: tuple[str, ...] = ()


LAYOUT: Final = Layout(
    ListGroupsRequest,
    (
        Field("states_filter", "string", 4, 5, default=(), is_array=True),
        Field("types_filter", "string", 5, 5, default=(), is_array=True),
    ),
)
