"""AlterUserScramCredentialsResponse (key 51), versions 0 to 0. Written by `codegen.messages`: do not edit."""

from typing import Final, NamedTuple

from millstream.wire.schema import STRUCTURE, Field, Layout


class AlterUserScramCredentialsResult(NamedTuple):
    """A part of it."""

    user: str = ""
    error_code: int = 0
    error_message: str | None = ""


ALTER_USER_SCRAM_CREDENTIALS_RESULT: Final = Layout(
    AlterUserScramCredentialsResult,
    (
        Field("user", "string", 0, 0),
        Field("error_code", "error_code", 0, 0, default=0),
        Field("error_message", "string", 0, 0, nullable_from=0),
    ),
)


class AlterUserScramCredentialsResponse(NamedTuple):
    """The message."""

    throttle_time_ms: int = 0
    results: tuple[AlterUserScramCredentialsResult, ...] = ()


LAYOUT: Final = Layout(
    AlterUserScramCredentialsResponse,
    (
        Field("throttle_time_ms", "timedelta_i32", 0, 0, default=0),
        Field("results", STRUCTURE, 0, 0, is_array=True, nested=ALTER_USER_SCRAM_CREDENTIALS_RESULT),
    ),
)
