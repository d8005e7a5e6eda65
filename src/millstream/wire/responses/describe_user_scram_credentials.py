"""DescribeUserScramCredentialsResponse (key 50), versions 0 to 0. Written by `codegen.messages`: do not edit."""

from typing import Final, NamedTuple

from millstream.wire.schema import STRUCTURE, Field, Layout


class CredentialInfo(NamedTuple):
    """A part of it."""

    mechanism: int = 0
    iterations: int = 0


CREDENTIAL_INFO: Final = Layout(
    CredentialInfo,
    (
        Field("mechanism", "int8", 0, 0),
        Field("iterations", "int32", 0, 0),
    ),
)


class DescribeUserScramCredentialsResult(NamedTuple):
    """A part of it."""

    user: str = ""
    error_code: int = 0
    error_message: str | None = ""
    credential_infos: tuple[CredentialInfo, ...] = ()


DESCRIBE_USER_SCRAM_CREDENTIALS_RESULT: Final = Layout(
    DescribeUserScramCredentialsResult,
    (
        Field("user", "string", 0, 0),
        Field("error_code", "error_code", 0, 0, default=0),
        Field("error_message", "string", 0, 0, nullable_from=0),
        Field("credential_infos", STRUCTURE, 0, 0, is_array=True, nested=CREDENTIAL_INFO),
    ),
)


class DescribeUserScramCredentialsResponse(NamedTuple):
    """The message."""

    throttle_time_ms: int = 0
    error_code: int = 0
    error_message: str | None = ""
    results: tuple[DescribeUserScramCredentialsResult, ...] = ()


LAYOUT: Final = Layout(
    DescribeUserScramCredentialsResponse,
    (
        Field("throttle_time_ms", "timedelta_i32", 0, 0, default=0),
        Field("error_code", "error_code", 0, 0, default=0),
        Field("error_message", "string", 0, 0, nullable_from=0),
        Field("results", STRUCTURE, 0, 0, is_array=True, nested=DESCRIBE_USER_SCRAM_CREDENTIALS_RESULT),
    ),
)
