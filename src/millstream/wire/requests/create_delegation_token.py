"""CreateDelegationTokenRequest (key 38), versions 1 to 3. Written by `codegen.messages`: do not edit."""

from typing import Final, NamedTuple

from millstream.wire.schema import STRUCTURE, Field, Layout


class CreatableRenewers(NamedTuple):
    """A part of it."""

    principal_type: str = ""
    principal_name: str = ""


CREATABLE_RENEWERS: Final = Layout(
    CreatableRenewers,
    (
        Field("principal_type", "string", 1, 3),
        Field("principal_name", "string", 1, 3),
    ),
)


class CreateDelegationTokenRequest(NamedTuple):
    """The message."""

    owner_principal_type: str | None = ""
    owner_principal_name: str | None = ""
    renewers: tuple[CreatableRenewers, ...] = ()
    max_lifetime_ms: int = 0


LAYOUT: Final = Layout(
    CreateDelegationTokenRequest,
    (
        Field("owner_principal_type", "string", 3, 3, nullable_from=3),
        Field("owner_principal_name", "string", 3, 3, nullable_from=3),
        Field("renewers", STRUCTURE, 1, 3, is_array=True, nested=CREATABLE_RENEWERS),
        Field("max_lifetime_ms", "timedelta_i64", 1, 3),
    ),
)
