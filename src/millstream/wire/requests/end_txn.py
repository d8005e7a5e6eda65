"""EndTxnRequest (key 26), versions 0 to 5. Written by `codegen.messages`: do not edit."""

from typing import Final, NamedTuple

from millstream.wire.schema import Field, Layout


class EndTxnRequest(NamedTuple):
    """The message."""

    transactional_id: str = ""
    producer_id: int = 0
    producer_epoch: int = 0
    committed: bool = False


LAYOUT: Final = Layout(
    EndTxnRequest,
    (
        Field("transactional_id", "string", 0, 5),
        Field("producer_id", "int64", 0, 5),
        Field("producer_epoch", "int16", 0, 5),
        Field("committed", "bool", 0, 5),
    ),
)
