"""GetTelemetrySubscriptionsResponse (key 71), versions 0 to 0. Written by `codegen.messages`: do not edit."""

from typing import Final, NamedTuple
from uuid import UUID

from millstream.wire.schema import Field, Layout


class GetTelemetrySubscriptionsResponse(NamedTuple):
    """The message."""

    throttle_time_ms: int = 0
    error_code: int = 0
    client_instance_id: UUID | None = None
    subscription_id: int = 0
    accepted_compression_types: tuple[int, ...] = ()
    push_interval_ms: int = 0
    telemetry_max_bytes: int = 0
    delta_temporality: bool = False
    requested_metrics: tuple[str, ...] = ()


LAYOUT: Final = Layout(
    GetTelemetrySubscriptionsResponse,
    (
        Field("throttle_time_ms", "timedelta_i32", 0, 0, default=0),
        Field("error_code", "error_code", 0, 0, default=0),
        Field("client_instance_id", "uuid", 0, 0, nullable_from=0),
        Field("subscription_id", "int32", 0, 0),
        Field("accepted_compression_types", "int8", 0, 0, default=(), is_array=True),
        Field("push_interval_ms", "timedelta_i32", 0, 0),
        Field("telemetry_max_bytes", "int32", 0, 0),
        Field("delta_temporality", "bool", 0, 0),
        Field("requested_metrics", "string", 0, 0, default=(), is_array=True),
    ),
)
