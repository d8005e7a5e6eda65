"""DescribeDelegationTokenResponse (key 41), versions 1 to 3. Written by `codegen.messages`: do not edit."""

from typing import Final, NamedTuple

from millstream.wire.schema import STRUCTURE, Field, Layout


class DescribedDelegationTokenRenewer(NamedTuple):
    """A part of it."""

    principal_type: str = ""
    principal_name: str = ""


DESCRIBED_DELEGATION_TOKEN_RENEWER: Final = Layout(
    DescribedDelegationTokenRenewer,
    (
        Field("principal_type", "string", 1, 3),
        Field("principal_name", "string", 1, 3),
    ),
)


class DescribedDelegationToken(NamedTuple):
    """A part of it."""

    principal_type: str = ""
    principal_name: str = ""
    token_requester_principal_type: str = ""
    token_requester_principal_name: str = ""
    issue_timestamp: int = 0
    expiry_timestamp: int = 0
    max_timestamp: int = 0
    token_id: str = ""
    hmac: bytes = b""
    renewers: tuple[DescribedDelegationTokenRenewer, ...] = ()


DESCRIBED_DELEGATION_TOKEN: Final = Layout(
    DescribedDelegationToken,
    (
        Field("principal_type", "string", 1, 3),
        Field("principal_name", "string", 1, 3),
        Field("token_requester_principal_type", "string", 3, 3),
        Field("token_requester_principal_name", "string", 3, 3),
        Field("issue_timestamp", "int64", 1, 3),
        Field("expiry_timestamp", "int64", 1, 3),
        Field("max_timestamp", "int64", 1, 3),
        Field("token_id", "string", 1, 3),
        Field("hmac", "bytes", 1, 3),
        Field("renewers", STRUCTURE, 1, 3, is_array=True, nested=DESCRIBED_DELEGATION_TOKEN_RENEWER),
    ),
)


class DescribeDelegationTokenResponse(NamedTuple):
    """The message."""

    error_code: int = 0
    tokens: tuple[DescribedDelegationToken, ...] = ()
    throttle_time_ms: int = 0


LAYOUT: Final = Layout(
    DescribeDelegationTokenResponse,
    (
        Field("error_code", "error_code", 1, 3, default=0),
        Field("tokens", STRUCTURE, 1, 3, is_array=True, nested=DESCRIBED_DELEGATION_TOKEN),
        Field("throttle_time_ms", "timedelta_i32", 1, 3, default=0),
    ),
)
