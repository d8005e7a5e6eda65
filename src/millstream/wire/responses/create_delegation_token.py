"""CreateDelegationTokenResponse (key 38), versions 1 to 3. Written by `codegen.messages`: do not edit."""

from typing import Final, NamedTuple

from millstream.wire.schema import Field, Layout


class CreateDelegationTokenResponse(NamedTuple):
    """The message."""

    error_code: int = 0
    principal_type: str = ""
    principal_name: str = ""
    token_requester_principal_type: str = ""
    token_requester_principal_name: str = ""
    issue_timestamp_ms: int = 0
    expiry_timestamp_ms: int = 0
    max_timestamp_ms: int = 0
    token_id: str = ""
    hmac: bytes = b""
    throttle_time_ms: int = 0


LAYOUT: Final = Layout(
    CreateDelegationTokenResponse,
    (
        Field("error_code", "error_code", 1, 3, default=0),
        Field("principal_type", "string", 1, 3),
        Field("principal_name", "string", 1, 3),
        Field("token_requester_principal_type", "string", 3, 3),
        Field("token_requester_principal_name", "string", 3, 3),
        Field("issue_timestamp_ms", "datetime_i64", 1, 3),
        Field("expiry_timestamp_ms", "datetime_i64", 1, 3),
        Field("max_timestamp_ms", "datetime_i64", 1, 3),
        Field("token_id", "string", 1, 3),
        Field("hmac", "bytes", 1, 3),
        Field("throttle_time_ms", "timedelta_i32", 1, 3, default=0),
    ),
)
