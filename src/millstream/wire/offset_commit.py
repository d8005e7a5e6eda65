"""OffsetCommit, versions 2 to 10: the request read and the answer written by hand, because consumers commit all the time.

    request                                             answer
      group id, generation or member epoch, member id     throttle time (3+)
      group instance id (7+)                              topics: name, or topic id from 10 on
      retention (2 to 4)                                    partitions: index, error
      topics: name, or topic id from 10 on
        partitions: index, offset, leader epoch (6+), metadata

Versions 8 and up are flexible. `tests/properties/test_wire_offset_commit.py` holds both directions equal to kio at every version. No rule
about groups or offsets is here.

A consumer commits the same partitions again and again. Only the correlation id, the offsets and the leader epochs of its requests differ,
and they stand at fixed places; the answer, if all goes well, differs only in the correlation id. Such requests are read, and answered, by
one call each (`CommitShape`), once one of them was decoded:

    api key, version | correlation id | ... index | offset, epoch | ... index | offset, epoch | ...
    ---- same ----     differs          - same -    differs         - same -    differs         same
"""

import struct
from collections.abc import Iterable, Mapping
from typing import Any, Final, NamedTuple, Self
from uuid import UUID

from millstream.errors import MalformedFrame
from millstream.wire.api import ApiKey
from millstream.wire.frames import frame_response
from millstream.wire.messages import MAX_REQUEST_BYTES
from millstream.wire.primitives import (
    INT32,
    INT64,
    UUID_SIZE,
    ZERO_UUID,
    compact_string,
    nullable_string,
    read_count,
    read_nullable_string,
    read_string,
    skip_tags,
    unsigned_varint,
)

LOWEST_VERSION: Final = 2
HIGHEST_VERSION: Final = 10
MAX_PARTITIONS: Final = 200_000
"""Most partitions in one request, over all topics."""
NO_RETENTION: Final = -1
NO_LEADER_EPOCH: Final = -1

_FIRST_WITH_THROTTLE: Final = 3
_LAST_WITH_RETENTION: Final = 4
_FIRST_WITH_LEADER_EPOCH: Final = 6
_FIRST_WITH_INSTANCE_ID: Final = 7
_FIRST_FLEXIBLE: Final = 8
_FIRST_WITH_TOPIC_ID: Final = 10

_INDEX_AND_OFFSET: Final = struct.Struct(">iq")
_INDEX_OFFSET_AND_EPOCH: Final = struct.Struct(">iqi")
_INDEX_AND_ERROR: Final = struct.Struct(">ih")
_INDEX_ERROR_AND_NO_TAGS: Final = struct.Struct(">ihb")
_NO_THROTTLE: Final = bytes(4)
_NO_TAGS: Final = b"\x00"
_BEFORE_CORRELATION: Final = 4
_AFTER_CORRELATION: Final = 8
_OFFSET_AND_EPOCH_SIZE: Final = 12

Position = tuple[int, int, int, str | None]
"""Partition, offset, leader epoch, metadata."""


class TopicToCommit(NamedTuple):
    """Positions in one topic, which is known by its name before version 10 and by its id from then on."""

    name: str | None
    topic_id: UUID | None
    partitions: list[Position]


class OffsetCommitRequest(NamedTuple):
    """An OffsetCommit request of any version."""

    group_id: str
    generation_or_member_epoch: int
    member_id: str
    instance_id: str | None
    retention_ms: int
    topics: list[TopicToCommit]
    offset_places: list[int]
    """Where in the request each offset stands; a leader epoch follows it from version 6 on."""


def decode_request(body: memoryview, version: int, *, start: int = 0) -> OffsetCommitRequest:
    """The request whose body begins at `start`; bytes after it are ignored."""
    if len(body) - start > MAX_REQUEST_BYTES:
        raise MalformedFrame(f"an OffsetCommit request of {len(body) - start} bytes is above the limit of {MAX_REQUEST_BYTES}")
    try:
        return _decode(body, version, start)
    except (IndexError, struct.error):
        raise MalformedFrame("an OffsetCommit request ends in the middle of a field") from None


def _decode(body: memoryview, version: int, position: int) -> OffsetCommitRequest:
    flexible = version >= _FIRST_FLEXIBLE
    group_id, position = read_string(body, position, flexible=flexible)
    generation: int = INT32.unpack_from(body, position)[0]
    member_id, position = read_string(body, position + 4, flexible=flexible)
    instance_id, retention_ms = None, NO_RETENTION
    if version >= _FIRST_WITH_INSTANCE_ID:
        instance_id, position = read_nullable_string(body, position, flexible=flexible)
    elif version <= _LAST_WITH_RETENTION:
        retention_ms = INT64.unpack_from(body, position)[0]
        position += 8
    count, position = read_count(body, position, flexible=flexible, element_size=2)
    topics = []
    places: list[int] = []
    for read in range(count):
        topic, position = _read_topic(body, position, version=version, limit=MAX_PARTITIONS - len(places) - read, places=places)
        topics.append(topic)
    if flexible:
        skip_tags(body, position)
    return OffsetCommitRequest(group_id, generation, member_id, instance_id, retention_ms, topics, places)


def _read_topic(body: memoryview, position: int, *, version: int, limit: int, places: list[int]) -> tuple[TopicToCommit, int]:
    flexible = version >= _FIRST_FLEXIBLE
    name: str | None = None
    topic_id: UUID | None = None
    if version >= _FIRST_WITH_TOPIC_ID:
        content = bytes(body[position : position + UUID_SIZE])
        if len(content) != UUID_SIZE:
            raise MalformedFrame("an OffsetCommit request ends in a topic id")
        topic_id = None if content == ZERO_UUID else UUID(bytes=content)
        position += UUID_SIZE
    else:
        name, position = read_string(body, position, flexible=flexible)
    count, position = read_count(body, position, flexible=flexible, element_size=_INDEX_AND_OFFSET.size + 1)
    if count > limit:
        raise MalformedFrame(f"an OffsetCommit request with more than {MAX_PARTITIONS} partitions")
    if flexible:
        partitions, position = _read_flexible_positions(body, position, count=count, places=places)
        if body[position]:
            position = skip_tags(body, position)
        else:
            position += 1
    else:
        partitions, position = _read_legacy_positions(body, position, count=count, version=version, places=places)
    return TopicToCommit(name, topic_id, partitions), position


def _read_flexible_positions(body: memoryview, position: int, *, count: int, places: list[int]) -> tuple[list[Position], int]:
    partitions: list[Position] = []
    unpack_from = _INDEX_OFFSET_AND_EPOCH.unpack_from
    for _ in range(count):
        index, offset, epoch = unpack_from(body, position)
        places.append(position + INT32.size)
        position += 16
        if body[position] == 1 and body[position + 1] == 0:
            # An empty text and no tags: nearly always.
            metadata: str | None = ""
            position += 2
        else:
            metadata, position = read_nullable_string(body, position, flexible=True)
            position = skip_tags(body, position)
        partitions.append((index, offset, epoch, metadata))
    return partitions, position


def _read_legacy_positions(body: memoryview, position: int, *, count: int, version: int, places: list[int]) -> tuple[list[Position], int]:
    partitions: list[Position] = []
    epoch = NO_LEADER_EPOCH
    for _ in range(count):
        places.append(position + INT32.size)
        if version >= _FIRST_WITH_LEADER_EPOCH:
            index, offset, epoch = _INDEX_OFFSET_AND_EPOCH.unpack_from(body, position)
            position += _INDEX_OFFSET_AND_EPOCH.size
        else:
            index, offset = _INDEX_AND_OFFSET.unpack_from(body, position)
            position += _INDEX_AND_OFFSET.size
        metadata, position = read_nullable_string(body, position, flexible=False)
        partitions.append((index, offset, epoch, metadata))
    return partitions, position


def encode_response(version: int, correlation_id: int, *, topics: Iterable[Mapping[str, Any]]) -> bytes:
    """The whole answer from topics with `name` or `topic_id` and `partitions`, each with `partition_index` and `error_code`."""
    flexible = version >= _FIRST_FLEXIBLE
    parts: list[bytes] = []
    count = 0
    for topic in topics:
        count += 1
        partitions = topic["partitions"]
        if version >= _FIRST_WITH_TOPIC_ID:
            topic_id = topic["topic_id"]
            parts.append(ZERO_UUID if topic_id is None else topic_id.bytes)
        else:
            parts.append(compact_string(topic["name"]) if flexible else nullable_string(topic["name"]))
        if flexible:
            parts.append(unsigned_varint(len(partitions) + 1))
            parts += [_INDEX_ERROR_AND_NO_TAGS.pack(one["partition_index"], one["error_code"], 0) for one in partitions]
            parts.append(_NO_TAGS)
        else:
            parts.append(INT32.pack(len(partitions)))
            parts += [_INDEX_AND_ERROR.pack(one["partition_index"], one["error_code"]) for one in partitions]
    throttle = _NO_THROTTLE if version >= _FIRST_WITH_THROTTLE else b""
    if flexible:
        body = b"".join((throttle, unsigned_varint(count + 1), *parts, _NO_TAGS))
    else:
        body = b"".join((throttle, INT32.pack(count), *parts))
    return frame_response(ApiKey.OFFSET_COMMIT, version, correlation_id=correlation_id, body=body)


class CommitNumbers(NamedTuple):
    """What is of its own in a request of a known shape."""

    correlation_id: int
    offsets: tuple[int, ...]
    leader_epochs: tuple[int, ...]


class CommitShape:
    """What the commits of a consumer have in common."""

    __slots__ = ("_answer_end", "_answer_start", "_key_and_version", "_layout", "_same", "_size")

    def __init__(self, frame: memoryview, places: list[int], *, answer: bytes) -> None:
        ends = [_AFTER_CORRELATION, *(place + _OFFSET_AND_EPOCH_SIZE for place in places)]
        sizes = [start - end for end, start in zip(ends, [*places, len(frame)], strict=True)]
        self._size = len(frame)
        self._layout = struct.Struct(">4si" + "qi".join(f"{size}s" for size in sizes))
        parts = self._layout.unpack(frame)
        self._key_and_version: bytes = parts[0]
        self._same: tuple[bytes, ...] = parts[2::3]
        self._answer_start = answer[:_BEFORE_CORRELATION]
        self._answer_end = answer[_AFTER_CORRELATION:]

    @classmethod
    def of(cls, frame: memoryview, version: int, request: OffsetCommitRequest, *, answer: bytes) -> Self | None:
        """The shape of a request with its answer; None where leader epochs are missing (before version 6) or nothing is committed."""
        if version < _FIRST_WITH_LEADER_EPOCH or not request.offset_places:
            return None
        return cls(frame, request.offset_places, answer=answer)

    def match(self, frame: memoryview) -> CommitNumbers | None:
        """The numbers of a request of this shape; None for any other request."""
        if len(frame) != self._size:
            return None
        parts = self._layout.unpack(frame)
        if parts[0] != self._key_and_version or parts[2::3] != self._same:
            return None
        return CommitNumbers(parts[1], parts[3::3], parts[4::3])

    def answer(self, correlation_id: int) -> bytes:
        """The answer that goes with this shape."""
        return self._answer_start + INT32.pack(correlation_id) + self._answer_end
