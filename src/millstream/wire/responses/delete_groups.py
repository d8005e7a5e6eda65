"""DeleteGroupsResponse (key 42), versions 0 to 2. Written by `codegen.messages`: do not edit."""

from typing import Final, NamedTuple

from millstream.wire.schema import STRUCTURE, Field, Layout


class DeletableGroupResult(NamedTuple):
    """A part of it."""

    group_id: str = ""
    error_code: int = 0


DELETABLE_GROUP_RESULT: Final = Layout(
    DeletableGroupResult,
    (
        Field("group_id", "string", 0, 2),
        Field("error_code", "error_code", 0, 2, default=0),
    ),
)


class DeleteGroupsResponse(NamedTuple):
    """The message."""

    throttle_time_ms: int = 0
    results: tuple[DeletableGroupResult, ...] = ()


LAYOUT: Final = Layout(
    DeleteGroupsResponse,
    (
        Field("throttle_time_ms", "timedelta_i32", 0, 2, default=0),
        Field("results", STRUCTURE, 0, 2, is_array=True, nested=DELETABLE_GROUP_RESULT),
    ),
)
