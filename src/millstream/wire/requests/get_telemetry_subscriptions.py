"""GetTelemetrySubscriptionsRequest (key 71), versions 0 to 0. Written by `codegen.messages`: do not edit."""

from typing import Final, NamedTuple
from uuid import UUID

from millstream.wire.schema import Field, Layout


class GetTelemetrySubscriptionsRequest(NamedTuple):
    """The message."""

    client_instance_id: UUID | None = None


LAYOUT: Final = Layout(
    GetTelemetrySubscriptionsRequest,
    (Field("client_instance_id", "uuid", 0, 0, nullable_from=0),),
)
