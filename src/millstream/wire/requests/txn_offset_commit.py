"""TxnOffsetCommitRequest (key 28), versions 0 to 5. Written by `codegen.messages`: do not edit."""

from typing import Final, NamedTuple

from millstream.wire.schema import STRUCTURE, Field, Layout


class TxnOffsetCommitRequestPartition(NamedTuple):
    """A part of it."""

    partition_index: int = 0
    committed_offset: int = 0
    committed_leader_epoch: int = -1
    committed_metadata: str | None = ""


TXN_OFFSET_COMMIT_REQUEST_PARTITION: Final = Layout(
    TxnOffsetCommitRequestPartition,
    (
        Field("partition_index", "int32", 0, 5),
        Field("committed_offset", "int64", 0, 5),
        Field("committed_leader_epoch", "int32", 2, 5, default=-1),
        Field("committed_metadata", "string", 0, 5, nullable_from=0),
    ),
)


class TxnOffsetCommitRequestTopic(NamedTuple):
    """A part of it."""

    name: str = ""
    partitions: tuple[TxnOffsetCommitRequestPartition, ...] = ()


TXN_OFFSET_COMMIT_REQUEST_TOPIC: Final = Layout(
    TxnOffsetCommitRequestTopic,
    (
        Field("name", "string", 0, 5),
        Field("partitions", STRUCTURE, 0, 5, is_array=True, nested=TXN_OFFSET_COMMIT_REQUEST_PARTITION),
    ),
)


class TxnOffsetCommitRequest(NamedTuple):
    """The message."""

    transactional_id: str = ""
    group_id: str = ""
    producer_id: int = 0
    producer_epoch: int = 0
    generation_id: int = -1
    member_id: str = ""
    group_instance_id: str | None = None
    topics: tuple[TxnOffsetCommitRequestTopic, ...] = ()


LAYOUT: Final = Layout(
    TxnOffsetCommitRequest,
    (
        Field("transactional_id", "string", 0, 5),
        Field("group_id", "string", 0, 5),
        Field("producer_id", "int64", 0, 5),
        Field("producer_epoch", "int16", 0, 5),
        Field("generation_id", "int32", 3, 5, default=-1),
        Field("member_id", "string", 3, 5, default=""),
        Field("group_instance_id", "string", 3, 5, default=None, nullable_from=3),
        Field("topics", STRUCTURE, 0, 5, is_array=True, nested=TXN_OFFSET_COMMIT_REQUEST_TOPIC),
    ),
)
