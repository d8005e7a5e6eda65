"""DeleteRecordsRequest (key 21), versions 0 to 2. Written by `codegen.messages`: do not edit."""

from typing import Final, NamedTuple

from millstream.wire.schema import STRUCTURE, Field, Layout


class DeleteRecordsPartition(NamedTuple):
    """A part of it."""

    partition_index: int = 0
    offset: int = 0


DELETE_RECORDS_PARTITION: Final = Layout(
    DeleteRecordsPartition,
    (
        Field("partition_index", "int32", 0, 2),
        Field("offset", "int64", 0, 2),
    ),
)


class DeleteRecordsTopic(NamedTuple):
    """A part of it."""

    name: str = ""
    partitions: tuple[DeleteRecordsPartition, ...] = ()


DELETE_RECORDS_TOPIC: Final = Layout(
    DeleteRecordsTopic,
    (
        Field("name", "string", 0, 2),
        Field("partitions", STRUCTURE, 0, 2, is_array=True, nested=DELETE_RECORDS_PARTITION),
    ),
)


class DeleteRecordsRequest(NamedTuple):
    """The message."""

    topics: tuple[DeleteRecordsTopic, ...] = ()
    timeout_ms: int = 0


LAYOUT: Final = Layout(
    DeleteRecordsRequest,
    (
        Field("topics", STRUCTURE, 0, 2, is_array=True, nested=DELETE_RECORDS_TOPIC),
        Field("timeout_ms", "timedelta_i32", 0, 2),
    ),
)
