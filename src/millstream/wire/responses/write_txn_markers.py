"""WriteTxnMarkersResponse (key 27), versions 1 to 2. Written by `codegen.messages`: do not edit."""

from typing import Final, NamedTuple

from millstream.wire.schema import STRUCTURE, Field, Layout


class WritableTxnMarkerPartitionResult(NamedTuple):
    """A part of it."""

    partition_index: int = 0
    error_code: int = 0


WRITABLE_TXN_MARKER_PARTITION_RESULT: Final = Layout(
    WritableTxnMarkerPartitionResult,
    (
        Field("partition_index", "int32", 1, 2),
        Field("error_code", "error_code", 1, 2, default=0),
    ),
)


class WritableTxnMarkerTopicResult(NamedTuple):
    """A part of it."""

    name: str = ""
    partitions: tuple[WritableTxnMarkerPartitionResult, ...] = ()


WRITABLE_TXN_MARKER_TOPIC_RESULT: Final = Layout(
    WritableTxnMarkerTopicResult,
    (
        Field("name", "string", 1, 2),
        Field("partitions", STRUCTURE, 1, 2, is_array=True, nested=WRITABLE_TXN_MARKER_PARTITION_RESULT),
    ),
)


class WritableTxnMarkerResult(NamedTuple):
    """A part of it."""

    producer_id: int = 0
    topics: tuple[WritableTxnMarkerTopicResult, ...] = ()


WRITABLE_TXN_MARKER_RESULT: Final = Layout(
    WritableTxnMarkerResult,
    (
        Field("producer_id", "int64", 1, 2),
        Field("topics", STRUCTURE, 1, 2, is_array=True, nested=WRITABLE_TXN_MARKER_TOPIC_RESULT),
    ),
)


class WriteTxnMarkersResponse(NamedTuple):
    """The message."""

    markers: tuple[WritableTxnMarkerResult, ...] = ()


LAYOUT: Final = Layout(
    WriteTxnMarkersResponse,
    (Field("markers", STRUCTURE, 1, 2, is_array=True, nested=WRITABLE_TXN_MARKER_RESULT),),
)
