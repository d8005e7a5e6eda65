"""CreateAclsResponse (key 30), versions 1 to 3. Written by `codegen.messages`: do not edit."""

from typing import Final, NamedTuple

from millstream.wire.schema import STRUCTURE, Field, Layout


class AclCreationResult(NamedTuple):
    """A part of it."""

    error_code: int = 0
    error_message: str | None = ""


ACL_CREATION_RESULT: Final = Layout(
    AclCreationResult,
    (
        Field("error_code", "error_code", 1, 3, default=0),
        Field("error_message", "string", 1, 3, nullable_from=1),
    ),
)


class CreateAclsResponse(NamedTuple):
    """The message."""

    throttle_time_ms: int = 0
    results: tuple[AclCreationResult, ...] = ()


LAYOUT: Final = Layout(
    CreateAclsResponse,
    (
        Field("throttle_time_ms", "timedelta_i32", 1, 3, default=0),
        Field("results", STRUCTURE, 1, 3, is_array=True, nested=ACL_CREATION_RESULT),
    ),
)
