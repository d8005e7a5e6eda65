"""InitProducerIdResponse (key 22), versions 0 to 6. Written by `codegen.messages`: do not edit."""

from typing import Final, NamedTuple

from millstream.wire.schema import Field, Layout


class InitProducerIdResponse(NamedTuple):
    """The message."""

    throttle_time_ms: int = 0
    error_code: int = 0
    producer_id: int = -1
    producer_epoch: int = 0
    ongoing_txn_producer_id: int = -1
    ongoing_txn_producer_epoch: int = -1


LAYOUT: Final = Layout(
    InitProducerIdResponse,
    (
        Field("throttle_time_ms", "timedelta_i32", 0, 6, default=0),
        Field("error_code", "error_code", 0, 6, default=0),
        Field("producer_id", "int64", 0, 6, default=-1),
        Field("producer_epoch", "int16", 0, 6),
        Field("ongoing_txn_producer_id", "int64", 6, 6, default=-1),
        Field("ongoing_txn_producer_epoch", "int16", 6, 6, default=-1),
    ),
)
