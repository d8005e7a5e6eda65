"""Produce, versions 3 to 13: the request read and the answer written by hand, because this is the hottest path of the broker.

    request                              answer
      transactional id                     topics: name, or topic id from 13 on
      acks, timeout                          partitions: index, error, base offset, log append time
      topics: name, or topic id from 13 on                 log start offset               from 5 on
        partitions: index, records                         record errors, error message   from 8 on
                                                           current leader (tag 0)         from 10 on
                                           throttle time, node endpoints (tag 0) from 10 on

Versions 9 and up are flexible. The records stay what they are, a view into the request: whoever keeps them past the life of the receive
buffer copies them. `tests/properties/test_wire_produce.py` holds both directions equal to kio at every version. What is inside the records
is not looked at here (`wire.batch`, `log`), nor is any rule of Kafka's about acks, topics or partitions.
"""

import struct
from collections.abc import Sequence
from functools import lru_cache
from typing import Final, NamedTuple

from millstream.errors import MalformedFrame, RecordError
from millstream.wire.primitives import (
    INT16,
    INT32,
    UUID_SIZE,
    ZERO_UUID,
    NodeEndpoint,
    compact_string,
    encode_node_endpoints,
    nullable_string,
    read_count,
    read_nullable_string,
    read_string,
    read_unsigned_varint,
    skip_tags,
    unsigned_varint,
)

LOWEST_VERSION: Final = 3
HIGHEST_VERSION: Final = 13
MAX_PARTITIONS: Final = 100_000
"""Most partitions in one request: an entry may be as small as five bytes, what is made of it is not."""

_TOO_MANY: Final = f"a Produce request with more than {MAX_PARTITIONS} partitions"
_ONE_BYTE: Final = 0x7F
"""Highest varint of one byte."""

FIRST_WITH_RECORD_ERRORS: Final = 8
FIRST_FLEXIBLE: Final = 9
FIRST_WITH_LEADER: Final = 10
_FIRST_WITH_TOPIC_ID: Final = 13

_ACKS_AND_TIMEOUT: Final = struct.Struct(">hi")
_LEGACY_START: Final = struct.Struct(">hhii")
_ACKS_TIMEOUT_AND_COUNT: Final = struct.Struct(">hii")
_INDEX_AND_SIZE: Final = struct.Struct(">ii")
_HEADER: Final = struct.Struct(">ii")
_FLEXIBLE_HEADER: Final = struct.Struct(">iib")
_UNTIL_TIME: Final = struct.Struct(">ihqq")
_UNTIL_START: Final = struct.Struct(">ihqqq")
_WITHOUT_ERRORS: Final = struct.Struct(">ihqqqih")
_FLEXIBLE_WITHOUT_ERRORS: Final = struct.Struct(">ihqqqbbb")
_LEADER: Final = struct.Struct(">bbbiib")
_THROTTLE_AND_NO_TAGS: Final = struct.Struct(">ib")


class ProduceTopic(NamedTuple):
    """Records for one topic, which is known by its name before version 13 and by its id from then on."""

    name: str | None
    topic_id: bytes | None
    partitions: list[tuple[int, memoryview | None]]
    """Partition and the records for it."""

    @property
    def key(self) -> str | bytes | None:
        """What the topic is known by."""
        return self.topic_id if self.name is None else self.name


class ProduceRequest(NamedTuple):
    """A Produce request of any version."""

    transactional_id: str | None
    acks: int
    timeout_ms: int
    topics: list[ProduceTopic]


class PartitionProduced(NamedTuple):
    """The answer for one partition."""

    partition: int
    error_code: int = 0
    base_offset: int = -1
    log_append_time_ms: int = -1
    log_start_offset: int = -1
    record_errors: Sequence[RecordError] = ()
    error_message: str | None = None
    leader: tuple[int, int] | None = None
    """Id and epoch of the leader that the client should turn to instead."""


class TopicProduced(NamedTuple):
    """The answers for the partitions of one topic; the name or the id goes out, as the version wants."""

    name: str | None
    topic_id: bytes | None
    partitions: Sequence[PartitionProduced]


def decode_request(body: memoryview, version: int, *, start: int = 0) -> ProduceRequest:
    """The request whose body begins at `start`; the records are views into `body`."""
    try:
        if version >= FIRST_FLEXIBLE:
            return _decode_flexible(body, start, version)
        return _decode_legacy(body, start)
    except (IndexError, struct.error):
        raise MalformedFrame("a Produce request ends in the middle of a field") from None
    except UnicodeDecodeError:
        raise MalformedFrame("a topic name is not valid UTF-8") from None


# Both decoders are written for the common request, one topic with one partition. A slice that reaches past the end of the body is caught
# one step later, by the next field, for which nothing is left; where no field has to follow, the end is checked. A count of one byte is at
# most 126 and needs no check against the bytes left.


def _decode_flexible(body: memoryview, position: int, version: int) -> ProduceRequest:
    transactional_id = None
    if body[position] == 0:
        position += 1
    else:
        transactional_id, position = read_nullable_string(body, position, flexible=True)
    acks, timeout_ms = _ACKS_AND_TIMEOUT.unpack_from(body, position)
    position += 6
    if 0 <= (topic_count := body[position] - 1) < _ONE_BYTE:
        position += 1
    else:
        topic_count, position = read_count(body, position, flexible=True, element_size=3)
    topics = []
    partitions_left = MAX_PARTITIONS
    for _ in range(topic_count):
        name = topic_id = None
        if version >= _FIRST_WITH_TOPIC_ID:
            topic_id = bytes(body[position : position + UUID_SIZE])
            position += UUID_SIZE
        elif 0 < (size := body[position]) <= _ONE_BYTE:
            name = str(body[position + 1 : position + size], "utf-8")
            position += size
        else:
            name, position = read_string(body, position, flexible=True)
        if 0 <= (count := body[position] - 1) < _ONE_BYTE:
            position += 1
        else:
            count, position = read_count(body, position, flexible=True, element_size=6)
        partitions_left -= count
        if partitions_left < 0:
            raise MalformedFrame(_TOO_MANY)
        partitions: list[tuple[int, memoryview | None]] = []
        for _ in range(count):
            (index,) = INT32.unpack_from(body, position)
            size, position = read_unsigned_varint(body, position + 4)
            if size:
                end = position + size - 1
                partitions.append((index, body[position:end]))
                position = end
            else:
                partitions.append((index, None))
            position = position + 1 if body[position] == 0 else skip_tags(body, position)
        topics.append(ProduceTopic(name, topic_id, partitions))
        position = position + 1 if body[position] == 0 else skip_tags(body, position)
    if body[position]:
        skip_tags(body, position)
    return ProduceRequest(transactional_id, acks, timeout_ms, topics)


def _decode_legacy(body: memoryview, position: int) -> ProduceRequest:
    transactional_id = None
    size, acks, timeout_ms, topic_count = _LEGACY_START.unpack_from(body, position)
    position += 12
    if size != -1:
        transactional_id, position = read_nullable_string(body, position - 12, flexible=False)
        acks, timeout_ms, topic_count = _ACKS_TIMEOUT_AND_COUNT.unpack_from(body, position)
        position += 10
    _check_count(topic_count, left=len(body) - position, element_size=6)
    topics = []
    partitions_left = MAX_PARTITIONS
    for _ in range(topic_count):
        (size,) = INT16.unpack_from(body, position)
        if size < 0:
            raise MalformedFrame("a topic name is null")
        end = position + 2 + size
        name = str(body[position + 2 : end], "utf-8")
        (count,) = INT32.unpack_from(body, end)
        position = end + 4
        _check_count(count, left=len(body) - position, element_size=8)
        partitions_left -= count
        if partitions_left < 0:
            raise MalformedFrame(_TOO_MANY)
        partitions: list[tuple[int, memoryview | None]] = []
        for _ in range(count):
            index, size = _INDEX_AND_SIZE.unpack_from(body, position)
            position += 8
            if size >= 0:
                end = position + size
                if end > len(body):
                    raise MalformedFrame(f"{size} bytes of records do not fit into the {len(body) - position} bytes left of the request")
                partitions.append((index, body[position:end]))
                position = end
            elif size == -1:
                partitions.append((index, None))
            else:
                raise MalformedFrame(f"records cannot have {size} bytes")
        topics.append(ProduceTopic(name, None, partitions))
    return ProduceRequest(transactional_id, acks, timeout_ms, topics)


def _check_count(count: int, *, left: int, element_size: int) -> None:
    if count < 0 or count * element_size > left:
        raise MalformedFrame(f"an array of {count} elements does not fit into the {left} bytes left of the request")


class PlainAnswer:
    """The common answer: one partition of one topic, no error. All its bytes but five numbers are known beforehand."""

    __slots__ = ("_after", "_before", "_has_start_offset", "_pack", "_size")

    def __init__(self, version: int, name: str | None, topic_id: bytes | None) -> None:
        is_flexible = version >= FIRST_FLEXIBLE
        if is_flexible:
            topic = (topic_id or ZERO_UUID) if version >= _FIRST_WITH_TOPIC_ID else compact_string(name)
            self._before = b"\x00\x02" + topic + b"\x02"
            self._after = b"\x01\x00\x00\x00" + _THROTTLE_AND_NO_TAGS.pack(0, 0)
        else:
            self._before = INT32.pack(1) + nullable_string(name) + INT32.pack(1)
            self._after = (b"" if version < FIRST_WITH_RECORD_ERRORS else b"\x00\x00\x00\x00\xff\xff") + INT32.pack(0)
        self._has_start_offset = version >= 5
        start_offset = "q" if self._has_start_offset else ""
        layout = struct.Struct(f">ii{len(self._before)}sihqq{start_offset}{len(self._after)}s")
        self._pack = layout.pack
        self._size = layout.size - 4

    def encode(self, correlation_id: int, index: int, base_offset: int, time_ms: int, start_offset: int) -> bytes:
        """The whole answer with its size and header."""
        if self._has_start_offset:
            return self._pack(self._size, correlation_id, self._before, index, 0, base_offset, time_ms, start_offset, self._after)
        return self._pack(self._size, correlation_id, self._before, index, 0, base_offset, time_ms, self._after)


@lru_cache(maxsize=1024)
def plain_answer(version: int, name: str | None, topic_id: bytes | None) -> PlainAnswer:
    """The common answer for a topic."""
    return PlainAnswer(version, name, topic_id)


def encode_response(
    version: int,
    correlation_id: int,
    *,
    topics: Sequence[TopicProduced],
    throttle_time_ms: int = 0,
    node_endpoints: Sequence[NodeEndpoint] = (),
) -> bytes:
    """The whole answer with its size and header."""
    if len(topics) == 1 and not throttle_time_ms and not node_endpoints:
        name, topic_id, partitions = topics[0]
        if len(partitions) == 1:
            index, error_code, base_offset, time_ms, start_offset, record_errors, message, leader = partitions[0]
            if message is None and leader is None and not record_errors and not error_code:
                return plain_answer(version, name, topic_id).encode(correlation_id, index, base_offset, time_ms, start_offset)
    is_flexible = version >= FIRST_FLEXIBLE
    parts = [b"", unsigned_varint(len(topics) + 1) if is_flexible else INT32.pack(len(topics))]
    for name, topic_id, partitions in topics:
        if version >= _FIRST_WITH_TOPIC_ID:
            parts.append(topic_id or ZERO_UUID)
        else:
            assert name is not None
            parts.append(compact_string(name) if is_flexible else nullable_string(name))
        parts.append(unsigned_varint(len(partitions) + 1) if is_flexible else INT32.pack(len(partitions)))
        parts += [_encode_partition(version, partition) for partition in partitions]
        if is_flexible:
            parts.append(b"\x00")
    if node_endpoints and version >= FIRST_WITH_LEADER:
        parts += (INT32.pack(throttle_time_ms), encode_node_endpoints(node_endpoints))
    elif is_flexible:
        parts.append(_THROTTLE_AND_NO_TAGS.pack(throttle_time_ms, 0))
    else:
        parts.append(INT32.pack(throttle_time_ms))
    body = b"".join(parts)
    if is_flexible:
        return _FLEXIBLE_HEADER.pack(len(body) + 5, correlation_id, 0) + body
    return _HEADER.pack(len(body) + 4, correlation_id) + body


def _encode_partition(version: int, partition: PartitionProduced) -> bytes:
    index, error_code, base_offset, time_ms, start_offset, record_errors, message, leader = partition
    if version < FIRST_WITH_RECORD_ERRORS:
        if version < 5:
            return _UNTIL_TIME.pack(index, error_code, base_offset, time_ms)
        return _UNTIL_START.pack(index, error_code, base_offset, time_ms, start_offset)
    is_flexible = version >= FIRST_FLEXIBLE
    if not record_errors and message is None and leader is None:
        if is_flexible:
            return _FLEXIBLE_WITHOUT_ERRORS.pack(index, error_code, base_offset, time_ms, start_offset, 1, 0, 0)
        return _WITHOUT_ERRORS.pack(index, error_code, base_offset, time_ms, start_offset, 0, -1)
    fixed = _UNTIL_START.pack(index, error_code, base_offset, time_ms, start_offset)
    if is_flexible:
        errors = b"".join(INT32.pack(error.batch_index) + compact_string(error.message) + b"\x00" for error in record_errors)
        tags = _LEADER.pack(1, 0, 9, *leader, 0) if leader is not None and version >= FIRST_WITH_LEADER else b"\x00"
        return fixed + unsigned_varint(len(record_errors) + 1) + errors + compact_string(message) + tags
    errors = b"".join(INT32.pack(error.batch_index) + nullable_string(error.message) for error in record_errors)
    return fixed + INT32.pack(len(record_errors)) + errors + nullable_string(message)
