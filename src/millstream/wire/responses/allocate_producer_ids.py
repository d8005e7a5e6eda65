"""AllocateProducerIdsResponse (key 67), versions 0 to 0. Written by `codegen.messages`: do not edit."""

from typing import Final, NamedTuple

from millstream.wire.schema import Field, Layout


class AllocateProducerIdsResponse(NamedTuple):
    """The message."""

    throttle_time_ms: int = 0
    error_code: int = 0
    producer_id_start: int = 0
    producer_id_len: int = 0


LAYOUT: Final = Layout(
    AllocateProducerIdsResponse,
    (
        Field("throttle_time_ms", "timedelta_i32", 0, 0, default=0),
        Field("error_code", "error_code", 0, 0, default=0),
        Field("producer_id_start", "int64", 0, 0),
        Field("producer_id_len", "int32", 0, 0),
    ),
)
