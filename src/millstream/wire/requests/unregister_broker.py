"""UnregisterBrokerRequest (key 64), versions 0 to 0. Written by `codegen.messages`: do not edit."""

from typing import Final, NamedTuple

from millstream.wire.schema import Field, Layout


class UnregisterBrokerRequest(NamedTuple):
    """The message."""

    broker_id: int = 0


LAYOUT: Final = Layout(
    UnregisterBrokerRequest,
    (Field("broker_id", "int32", 0, 0),),
)
