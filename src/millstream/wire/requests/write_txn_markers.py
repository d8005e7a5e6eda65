"""WriteTxnMarkersRequest (key 27), versions 1 to 2. Written by `codegen.messages`: do not edit."""

from typing import Final, NamedTuple

from millstream.wire.schema import STRUCTURE, Field, Layout


class WritableTxnMarkerTopic(NamedTuple):
    """A part of it."""

    name: str = ""
    partition_indexes: tuple[int, ...] = ()


WRITABLE_TXN_MARKER_TOPIC: Final = Layout(
    WritableTxnMarkerTopic,
    (
        Field("name", "string", 1, 2),
        Field("partition_indexes", "int32", 1, 2, default=(), is_array=True),
    ),
)


class WritableTxnMarker(NamedTuple):
    """A part of it."""

    producer_id: int = 0
    producer_epoch: int = 0
    transaction_result: bool = False
    topics: tuple[WritableTxnMarkerTopic, ...] = ()
    coordinator_epoch: int = 0
    transaction_version: int = 0


WRITABLE_TXN_MARKER: Final = Layout(
    WritableTxnMarker,
    (
        Field("producer_id", "int64", 1, 2),
        Field("producer_epoch", "int16", 1, 2),
        Field("transaction_result", "bool", 1, 2),
        Field("topics", STRUCTURE, 1, 2, is_array=True, nested=WRITABLE_TXN_MARKER_TOPIC),
        Field("coordinator_epoch", "int32", 1, 2),
        Field("transaction_version", "int8", 2, 2, default=0),
    ),
)


class WriteTxnMarkersRequest(NamedTuple):
    """The message."""

    markers: tuple[WritableTxnMarker, ...] = ()


LAYOUT: Final = Layout(
    WriteTxnMarkersRequest,
    (Field("markers", STRUCTURE, 1, 2, is_array=True, nested=WRITABLE_TXN_MARKER),),
)
