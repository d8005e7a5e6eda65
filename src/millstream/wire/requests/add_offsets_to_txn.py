"""AddOffsetsToTxnRequest (key 25), versions 0 to 4. Written by `codegen.messages`: do not edit."""

from typing import Final, NamedTuple

from millstream.wire.schema import Field, Layout


class AddOffsetsToTxnRequest(NamedTuple):
    """The message."""

    transactional_id: str = ""
    producer_id: int = 0
    producer_epoch: int = 0
    group_id: str = ""


LAYOUT: Final = Layout(
    AddOffsetsToTxnRequest,
    (
        Field("transactional_id", "string", 0, 4),
        Field("producer_id", "int64", 0, 4),
        Field("producer_epoch", "int16", 0, 4),
        Field("group_id", "string", 0, 4),
    ),
)
