"""ShareFetchRequest (key 78), versions 1 to 2. Written by `codegen.messages`: do not edit."""

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


class FetchPartition(NamedTuple):
    """A part of it."""

    partition_index: int = 0
    acknowledgement_batches: tuple[AcknowledgementBatch, ...] = ()


FETCH_PARTITION: Final = Layout(
    FetchPartition,
    (
        Field("partition_index", "int32", 1, 2),
        Field("acknowledgement_batches", STRUCTURE, 1, 2, is_array=True, nested=ACKNOWLEDGEMENT_BATCH),
    ),
)


class FetchTopic(NamedTuple):
    """A part of it."""

    topic_id: UUID | None = None
    partitions: tuple[FetchPartition, ...] = ()


FETCH_TOPIC: Final = Layout(
    FetchTopic,
    (
        Field("topic_id", "uuid", 1, 2, nullable_from=1),
        Field("partitions", STRUCTURE, 1, 2, is_array=True, nested=FETCH_PARTITION),
    ),
)


class ForgottenTopic(NamedTuple):
    """A part of it."""

    topic_id: UUID | None = None
    partitions: tuple[int, ...] = ()


FORGOTTEN_TOPIC: Final = Layout(
    ForgottenTopic,
    (
        Field("topic_id", "uuid", 1, 2, nullable_from=1),
        Field("partitions", "int32", 1, 2, default=(), is_array=True),
    ),
)


class ShareFetchRequest(NamedTuple):
    """The message."""

    group_id: str | None = None
    member_id: str | None = ""
    share_session_epoch: int = 0
    max_wait_ms: int = 0
    min_bytes: int = 0
    max_bytes: int = 2147483647
    max_records: int = 0
    batch_size: int = 0
    share_acquire_mode: int = 0
    is_renew_ack: bool = False
    topics: tuple[FetchTopic, ...] = ()
    forgotten_topics_data: tuple[ForgottenTopic, ...] = ()


LAYOUT: Final = Layout(
    ShareFetchRequest,
    (
        Field("group_id", "string", 1, 2, default=None, nullable_from=1),
        Field("member_id", "string", 1, 2, nullable_from=1),
        Field("share_session_epoch", "int32", 1, 2),
        Field("max_wait_ms", "timedelta_i32", 1, 2),
        Field("min_bytes", "int32", 1, 2),
        Field("max_bytes", "int32", 1, 2, default=2147483647),
        Field("max_records", "int32", 1, 2),
        Field("batch_size", "int32", 1, 2),
        Field("share_acquire_mode", "int8", 2, 2, default=0),
        Field("is_renew_ack", "bool", 2, 2, default=False),
        Field("topics", STRUCTURE, 1, 2, is_array=True, nested=FETCH_TOPIC),
        Field("forgotten_topics_data", STRUCTURE, 1, 2, is_array=True, nested=FORGOTTEN_TOPIC),
    ),
)
