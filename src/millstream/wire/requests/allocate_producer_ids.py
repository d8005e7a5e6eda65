"""AllocateProducerIdsRequest (key 67), versions 0 to 0. Written by `codegen.messages`: do not edit."""

from typing import Final, NamedTuple

from millstream.wire.schema import Field, Layout


class AllocateProducerIdsRequest(NamedTuple):
    """The message."""

    broker_id: int = 0
    broker_epoch: int = -1


LAYOUT: Final = Layout(
    AllocateProducerIdsRequest,
    (
        Field("broker_id", "int32", 0, 0),
        Field("broker_epoch", "int64", 0, 0, default=-1),
    ),
)
