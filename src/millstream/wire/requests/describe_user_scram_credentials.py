"""DescribeUserScramCredentialsRequest (key 50), versions 0 to 0. Written by `codegen.messages`: do not edit."""

from typing import Final, NamedTuple

from millstream.wire.schema import STRUCTURE, Field, Layout


class UserName(NamedTuple):
    """A part of it."""

    name: str = ""


USER_NAME: Final = Layout(
    UserName,
    (Field("name", "string", 0, 0),),
)


class DescribeUserScramCredentialsRequest(NamedTuple):
    """The message."""

    users: tuple[UserName, ...] | None = ()


LAYOUT: Final = Layout(
    DescribeUserScramCredentialsRequest,
    (Field("users", STRUCTURE, 0, 0, is_array=True, nullable_from=0, nested=USER_NAME),),
)
