"""BrokerRegistrationRequest (key 62), versions 0 to 4. Written by `codegen.messages`: do not edit."""

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
        Field("name", "string", 0, 4),
        Field("host", "string", 0, 4),
        Field("port", "uint16", 0, 4),
        Field("security_protocol", "int16", 0, 4),
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
        Field("name", "string", 0, 4),
        Field("min_supported_version", "int16", 0, 4),
        Field("max_supported_version", "int16", 0, 4),
    ),
)


class BrokerRegistrationRequest(NamedTuple):
    """The message."""

    broker_id: int = 0
    cluster_id: str = ""
    incarnation_id: UUID | None = None
    listeners: tuple[Listener, ...] = ()
    features: tuple[Feature, ...] = ()
    rack: str | None = ""
    is_migrating_zk_broker: bool = False
    log_dirs: tuple[UUID, ...] = ()
    previous_broker_epoch: int = -1


LAYOUT: Final = Layout(
    BrokerRegistrationRequest,
    (
        Field("broker_id", "int32", 0, 4),
        Field("cluster_id", "string", 0, 4),
        Field("incarnation_id", "uuid", 0, 4, nullable_from=0),
        Field("listeners", STRUCTURE, 0, 4, is_array=True, nested=LISTENER),
        Field("features", STRUCTURE, 0, 4, is_array=True, nested=FEATURE),
        Field("rack", "string", 0, 4, nullable_from=0),
        Field("is_migrating_zk_broker", "bool", 1, 4, default=False),
        Field("log_dirs", "uuid", 2, 4, default=(), is_array=True),
        Field("previous_broker_epoch", "int64", 3, 4, default=-1),
    ),
)
