"""ControllerRegistrationRequest (key 70), versions 0 to 0. Written by `codegen.messages`: do not edit."""

from typing import Final, NamedTuple
from uuid import UUID

from millstream.wire.schema import STRUCTURE, Field, Layout


class Listener(NamedTuple):
    """A part of it."""

    name: str = ""
    host: str = ""
    port: int = 0
    security_protocol: int = 0


LISTENER: Final = Layout(
    Listener,
    (
        Field("name", "string", 0, 0),
        Field("host", "string", 0, 0),
        Field("port", "uint16", 0, 0),
        Field("security_protocol", "int16", 0, 0),
    ),
)


class Feature(NamedTuple):
    """A part of it."""

    name: str = ""
    min_supported_version: int = 0
    max_supported_version: int = 0


FEATURE: Final = Layout(
    Feature,
    (
        Field("name", "string", 0, 0),
        Field("min_supported_version", "int16", 0, 0),
        Field("max_supported_version", "int16", 0, 0),
    ),
)


class ControllerRegistrationRequest(NamedTuple):
    """The message."""

    controller_id: int = 0
    incarnation_id: UUID | None = None
    zk_migration_ready: bool = False
    listeners: tuple[Listener, ...] = ()
    features: tuple[Feature, ...] = ()


LAYOUT: Final = Layout(
    ControllerRegistrationRequest,
    (
        Field("controller_id", "int32", 0, 0),
        Field("incarnation_id", "uuid", 0, 0, nullable_from=0),
        Field("zk_migration_ready", "bool", 0, 0),
        Field("listeners", STRUCTURE, 0, 0, is_array=True, nested=LISTENER),
        Field("features", STRUCTURE, 0, 0, is_array=True, nested=FEATURE),
    ),
)
