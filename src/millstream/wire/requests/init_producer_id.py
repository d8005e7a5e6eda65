"""InitProducerIdRequest (key 22), versions 0 to 6. Written by `codegen.messages`: do not edit."""

from typing import Final, NamedTuple

from millstream.wire.schema import Field, Layout


class InitProducerIdRequest(NamedTuple):
    """The message."""

    transactional_id: str | None = ""
    transaction_timeout_ms: int = 0
    producer_id: int = -1
    producer_epoch: int = -1
    enable2_pc: bool = False
    keep_prepared_txn: bool = False


LAYOUT: Final = Layout(
    InitProducerIdRequest,
    (
        Field("transactional_id", "string", 0, 6, nullable_from=0),
        Field("transaction_timeout_ms", "timedelta_i32", 0, 6),
        Field("producer_id", "int64", 3, 6, default=-1),
        Field("producer_epoch", "int16", 3, 6, default=-1),
        Field("enable2_pc", "bool", 6, 6, default=False),
        Field("keep_prepared_txn", "bool", 6, 6, default=False),
    ),
)
