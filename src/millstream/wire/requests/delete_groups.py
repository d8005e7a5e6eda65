"""DeleteGroupsRequest (key 42), versions 0 to 2. Written by `codegen.messages`: do not edit."""

from typing import Final, NamedTuple

from millstream.wire.schema import Field, Layout


class DeleteGroupsRequest(NamedTuple):
    """The message."""

    groups_names: tuple[str, ...] = ()


LAYOUT: Final = Layout(
    DeleteGroupsRequest,
    (Field("groups_names", "string", 0, 2, default=(), is_array=True),),
)
