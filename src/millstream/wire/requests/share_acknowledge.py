"""ShareAcknowledgeRequest (key 79), versions 1 to 2. Written by `codegen.messages`: do not edit."""

from typing import Final, NamedTuple
from uuid import UUID

from millstream.wire.schema import STRUCTURE, Field, Layout


class AcknowledgementBatch(NamedTuple):
    """A part of it."""

    first_offset: int = 0
    last_offset: int = 0
    acknowledge_types: tuple[int, ...] = ()


ACKNOWLEDGEMENT_BATCH: Final = Layout(
    AcknowledgementBatch,
    (
        Field("first_offset", "int64", 1, 2),
        Field("last_offset", "int64", 1, 2),
        Field("acknowledge_types", "int8", 1, 2, default=(), is_array=True),
    ),
)


class AcknowledgePartition(NamedTuple):
    """A part of it."""

    partition_index: int = 0
    acknowledgement_batches: tuple[AcknowledgementBatch, ...] = ()


ACKNOWLEDGE_PARTITION: Final = Layout(
    AcknowledgePartition,
    (
        Field("partition_index", "int32", 1, 2),
        Field("acknowledgement_batches", STRUCTURE, 1, 2, is_array=True, nested=ACKNOWLEDGEMENT_BATCH),
    ),
)


class AcknowledgeTopic(NamedTuple):
    """A part of it."""

    topic_id: UUID | None = None
    partitions: tuple[AcknowledgePartition, ...] = ()


ACKNOWLEDGE_TOPIC: Final = Layout(
    AcknowledgeTopic,
    (
        Field("topic_id", "uuid", 1, 2, nullable_from=1),
        Field("partitions", STRUCTURE, 1, 2, is_array=True, nested=ACKNOWLEDGE_PARTITION),
    ),
)


class ShareAcknowledgeRequest(NamedTuple):
    """The message."""

    group_id: str | None = None
    member_id: str | None = ""
    share_session_epoch: int = 0
    is_renew_ack: bool = False
    topics: tuple[AcknowledgeTopic, ...] = ()


LAYOUT: Final = Layout(
    ShareAcknowledgeRequest,
    (
        Field("group_id", "string", 1, 2, default=None, nullable_from=1),
        Field("member_id", "string", 1, 2, nullable_from=1),
        Field("share_session_epoch", "int32", 1, 2),
        Field("is_renew_ack", "bool", 2, 2, default=False),
        Field("topics", STRUCTURE, 1, 2, is_array=True, nested=ACKNOWLEDGE_TOPIC),
    ),
)
