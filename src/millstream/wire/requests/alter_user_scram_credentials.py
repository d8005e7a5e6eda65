"""AlterUserScramCredentialsRequest (key 51), versions 0 to 0. Written by `codegen.messages`: do not edit."""

from typing import Final, NamedTuple

from millstream.wire.schema import STRUCTURE, Field, Layout


class ScramCredentialDeletion(NamedTuple):
    """A part of it."""

    name: str = ""
    mechanism: int = 0


SCRAM_CREDENTIAL_DELETION: Final = Layout(
    ScramCredentialDeletion,
    (
        Field("name", "string", 0, 0),
        Field("mechanism", "int8", 0, 0),
    ),
)


class ScramCredentialUpsertion(NamedTuple):
    """A part of it."""

    name: str = ""
    mechanism: int = 0
    iterations: int = 0
    salt: bytes = b""
    salted_password: bytes = b""


SCRAM_CREDENTIAL_UPSERTION: Final = Layout(
    ScramCredentialUpsertion,
    (
        Field("name", "string", 0, 0),
        Field("mechanism", "int8", 0, 0),
        Field("iterations", "int32", 0, 0),
        Field("salt", "bytes", 0, 0),
        Field("salted_password", "bytes", 0, 0),
    ),
)


class AlterUserScramCredentialsRequest(NamedTuple):
    """The message."""

    deletions: tuple[ScramCredentialDeletion, ...] = ()
    upsertions: tuple[ScramCredentialUpsertion, ...] = ()


LAYOUT: Final = Layout(
    AlterUserScramCredentialsRequest,
    (
        Field("deletions", STRUCTURE, 0, 0, is_array=True, nested=SCRAM_CREDENTIAL_DELETION),
        Field("upsertions", STRUCTURE, 0, 0, is_array=True, nested=SCRAM_CREDENTIAL_UPSERTION),
    ),
)
