"""CreateAclsRequest (key 30), versions 1 to 3. Written by `codegen.messages`: do not edit."""

from typing import Final, NamedTuple

from millstream.wire.schema import STRUCTURE, Field, Layout


class AclCreation(NamedTuple):
    """A part of it."""

    resource_type: int = 0
    resource_name: str = ""
    resource_pattern_type: int = 3
    principal: str = ""
    host: str = ""
    operation: int = 0
    permission_type: int = 0


ACL_CREATION: Final = Layout(
    AclCreation,
    (
        Field("resource_type", "int8", 1, 3),
        Field("resource_name", "string", 1, 3),
        Field("resource_pattern_type", "int8", 1, 3, default=3),
        Field("principal", "string", 1, 3),
        Field("host", "string", 1, 3),
        Field("operation", "int8", 1, 3),
        Field("permission_type", "int8", 1, 3),
    ),
)


class CreateAclsRequest(NamedTuple):
    """The message."""

    creations: tuple[AclCreation, ...] = ()


LAYOUT: Final = Layout(
    CreateAclsRequest,
    (Field("creations", STRUCTURE, 1, 3, is_array=True, nested=ACL_CREATION),),
)
