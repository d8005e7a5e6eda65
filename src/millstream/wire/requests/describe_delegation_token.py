"""DescribeDelegationTokenRequest (key 41), versions 1 to 3. Written by `codegen.messages`: do not edit."""

from typing import Final, NamedTuple

from millstream.wire.schema import STRUCTURE, Field, Layout


class DescribeDelegationTokenOwner(NamedTuple):
    """A part of it."""

    principal_type: str = ""
    principal_name: str = ""


DESCRIBE_DELEGATION_TOKEN_OWNER: Final = Layout(
    DescribeDelegationTokenOwner,
    (
        Field("principal_type", "string", 1, 3),
        Field("principal_name", "string", 1, 3),
    ),
)


class DescribeDelegationTokenRequest(NamedTuple):
    """The message."""

    owners: tuple[DescribeDelegationTokenOwner, ...] | None = ()


LAYOUT: Final = Layout(
    DescribeDelegationTokenRequest,
    (Field("owners", STRUCTURE, 1, 3, is_array=True, nullable_from=1, nested=DESCRIBE_DELEGATION_TOKEN_OWNER),),
)
