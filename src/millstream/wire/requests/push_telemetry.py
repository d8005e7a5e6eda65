"""PushTelemetryRequest (key 72), versions 0 to 0. Written by `codegen.messages`: do not edit."""

from typing import Final, NamedTuple
from uuid import UUID

from millstream.wire.schema import Field, Layout


class PushTelemetryRequest(NamedTuple):
    """The message."""

    client_instance_id: UUID | None = None
    subscription_id: int = 0
    terminating: bool = False
    compression_type: int = 0
    metrics: bytes = b""


LAYOUT: Final = Layout(
    PushTelemetryRequest,
    (
        Field("client_instance_id", "uuid", 0, 0, nullable_from=0),
        Field("subscription_id", "int32", 0, 0),
        Field("terminating", "bool", 0, 0),
        Field("compression_type", "int8", 0, 0),
        Field("metrics", "bytes", 0, 0),
    ),
)
