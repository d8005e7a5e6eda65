"""MirrorAppend, version 0, a request of Millstream's own: batches that keep their offsets, at the end of topics that a mirror fills.

    request  int32 timeout in ms | int8 whether this ends the mirroring
             int32 topics:      16 bytes topic id | string mirror.source of the topic
                                int32 partitions:  int32 index | int64 log end offset that the mirror expects | int32 size, batches
    answer   int32 topics:      16 bytes topic id
                                int32 partitions:  int32 index | int16 error | int64 log end offset | int64 log start offset
                                                   int64 highest producer id | string message or null

Its key is far from Kafka's, and only clients that call themselves `millstream` (KIP-511) see it in ApiVersions. The log end comes with
errors, too: by it a mirror that begins learns where to go on. The highest producer id is given when the mirroring ends, else it is -1.
The batches stay a view into the request. What is in them, and who may append, is not looked at here.
"""

import struct
from collections.abc import Sequence
from typing import Final, NamedTuple

from millstream.errors import MalformedFrame
from millstream.wire.api import ApiKey
from millstream.wire.frames import frame_response
from millstream.wire.primitives import INT32, UUID_SIZE, check_left, nullable_string, read_count, read_nullable_string, read_string

_HEAD: Final = struct.Struct(">ib")
_PARTITION: Final = struct.Struct(">iqi")
_ANSWER: Final = struct.Struct(">ihqqq")
_SMALLEST_TOPIC: Final = UUID_SIZE + 6
_SMALLEST_ANSWER: Final = _ANSWER.size + 2


class MirrorPartition(NamedTuple):
    """Batches for one partition, whose log has to end at `expected_end_offset`."""

    partition: int
    expected_end_offset: int
    records: memoryview


class MirrorTopic(NamedTuple):
    """Batches for one topic."""

    topic_id: bytes
    source: str
    """What `mirror.source` of the topic has to be."""
    partitions: Sequence[MirrorPartition]


class MirrorAppendRequest(NamedTuple):
    """The whole request."""

    timeout_ms: int
    is_last: bool
    """Transactions that are open after these batches are to be aborted: the topics will be promoted."""
    topics: Sequence[MirrorTopic]


class PartitionMirrored(NamedTuple):
    """The answer for one partition."""

    partition: int
    error_code: int = 0
    log_end_offset: int = -1
    log_start_offset: int = -1
    highest_producer_id: int = -1
    error_message: str | None = None


class TopicMirrored(NamedTuple):
    """The answers for the partitions of one topic."""

    topic_id: bytes
    partitions: list[PartitionMirrored]


def encode_request(request: MirrorAppendRequest) -> list[bytes | memoryview]:
    """The body, in pieces: the batches are not copied."""
    pieces: list[bytes | memoryview] = []
    pending = [_HEAD.pack(request.timeout_ms, request.is_last), INT32.pack(len(request.topics))]
    for topic_id, source, partitions in request.topics:
        pending += (topic_id, nullable_string(source), INT32.pack(len(partitions)))
        for index, end_offset, records in partitions:
            pending.append(_PARTITION.pack(index, end_offset, len(records)))
            pieces += (b"".join(pending), records)
            pending = []
    return [*pieces, b"".join(pending)]


def decode_request(body: memoryview, *, start: int = 0) -> MirrorAppendRequest:
    """The request whose body begins at `start`; the batches are views into `body`."""
    try:
        timeout_ms, is_last = _HEAD.unpack_from(body, start)
        count, position = read_count(body, start + _HEAD.size, flexible=False, element_size=_SMALLEST_TOPIC)
        topics = []
        for _ in range(count):
            topic, position = _decode_topic(body, position)
            topics.append(topic)
    except (IndexError, struct.error):
        raise MalformedFrame("a MirrorAppend request ends in the middle of a field") from None
    return MirrorAppendRequest(timeout_ms, bool(is_last), topics)


def _decode_topic(body: memoryview, position: int) -> tuple[MirrorTopic, int]:
    topic_id, position = _read_topic_id(body, position)
    source, position = read_string(body, position, flexible=False)
    count, position = read_count(body, position, flexible=False, element_size=_PARTITION.size)
    partitions = []
    for _ in range(count):
        index, end_offset, size = _PARTITION.unpack_from(body, position)
        position += _PARTITION.size
        if size < 0:
            raise MalformedFrame(f"record batches cannot have {size} bytes")
        check_left(body, position, size=size)
        partitions.append(MirrorPartition(index, end_offset, body[position : position + size]))
        position += size
    return MirrorTopic(topic_id, source, partitions), position


def encode_response(correlation_id: int, topics: Sequence[TopicMirrored]) -> bytes:
    """The whole answer with its size and header."""
    parts = [INT32.pack(len(topics))]
    for topic_id, partitions in topics:
        parts += (topic_id, INT32.pack(len(partitions)))
        for *numbers, message in partitions:
            parts += (_ANSWER.pack(*numbers), nullable_string(message))
    return frame_response(ApiKey.MIRROR_APPEND, 0, correlation_id=correlation_id, body=b"".join(parts))


def decode_response(body: memoryview) -> list[TopicMirrored]:
    """The answer, without its header."""
    try:
        count, position = read_count(body, 0, flexible=False, element_size=UUID_SIZE + 4)
        topics = []
        for _ in range(count):
            topic_id, position = _read_topic_id(body, position)
            partition_count, position = read_count(body, position, flexible=False, element_size=_SMALLEST_ANSWER)
            partitions = []
            for _ in range(partition_count):
                index, error, end, log_start, producer_id = _ANSWER.unpack_from(body, position)
                message, position = read_nullable_string(body, position + _ANSWER.size, flexible=False)
                partitions.append(PartitionMirrored(index, error, end, log_start, producer_id, message))
            topics.append(TopicMirrored(topic_id, partitions))
    except (IndexError, struct.error):
        raise MalformedFrame("an answer to MirrorAppend ends in the middle of a field") from None
    return topics


def _read_topic_id(body: memoryview, position: int) -> tuple[bytes, int]:
    check_left(body, position, size=UUID_SIZE)
    return bytes(body[position : position + UUID_SIZE]), position + UUID_SIZE
