"""ListConfigResourcesRequest (key 74), versions 0 to 1. Written by `codegen.messages`: do not edit."""

from typing import Final, NamedTuple

from millstream.wire.schema import Field, Layout


class ListConfigResourcesRequest(NamedTuple):
    """The message."""

    resource_types: tuple[int, ...] = ()


LAYOUT: Final = Layout(
    ListConfigResourcesRequest,
    (Field("resource_types", "int8", 1, 1, default=(), is_array=True),),
)
