"""ListGroupsResponse (key 16), versions 0 to 5. Written by `codegen.messages`: do not edit."""

from typing import Final, NamedTuple

from millstream.wire.schema import STRUCTURE, Field, Layout


class ListedGroup(NamedTuple):
    """A part of it."""

    group_id: str = ""
    protocol_type: str = ""
    group_state: str = ""
    group_type: str = ""


LISTED_GROUP: Final = Layout(
    ListedGroup,
    (
        Field("group_id", "string", 0, 5),
        Field("protocol_type", "string", 0, 5),
        Field("group_state", "string", 4, 5),
        Field("group_type", "string", 5, 5),
    ),
)


class ListGroupsResponse(NamedTuple):
    """The message."""

    throttle_time_ms: int = 0
    error_code: int = 0
    groups: tuple[ListedGroup, ...] = ()


LAYOUT: Final = Layout(
    ListGroupsResponse,
    (
        Field("throttle_time_ms", "timedelta_i32", 1, 5, default=0),
        Field("error_code", "error_code", 0, 5, default=0),
        Field("groups", STRUCTURE, 0, 5, is_array=True, nested=LISTED_GROUP),
    ),
)
