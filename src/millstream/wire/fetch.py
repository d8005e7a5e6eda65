"""Fetch, versions 4 to 18: the request read and the answer written by hand, because this is the other hot path of the broker.

    request                                              answer
      replica id                       until 14            throttle time
      max wait, min bytes, max bytes, isolation level      error, session id                     from 7 on
      session id, session epoch        from 7 on           topics: name, or topic id from 13 on
      topics: name, or topic id from 13 on                   partitions: index, error, high watermark, last stable offset
        partitions: index                                                log start offset        from 5 on
                    current leader epoch   from 9 on                     aborted transactions (may be null)
                    fetch offset                                         preferred read replica  from 11 on
                    last fetched epoch     from 12 on                    records
                    log start offset       from 5 on                     tags from 12 on: 0 diverging epoch, 1 current leader
                    max bytes                              tag 0: node endpoints                 from 16 on
                    tags: 0 replica directory (17), 1 high watermark (18)
      forgotten topics                 from 7 on
      rack                             from 11 on
      tags: 0 cluster id (12), 1 replica id and epoch (15)

Versions 12 and up are flexible. Record bytes never pass through here: a partition of the answer carries a region, of which only the length
is asked, and the answer is a list in which the regions stand between the bytes, ready to be sent one after the other. Null records are
written as empty ones, as Kafka does. `tests/properties/test_wire_fetch.py` holds both directions equal to kio at every version.
Fetch sessions, limits and offsets are the broker's business, not this module's. The tag `snapshot id` (2) belongs to KRaft: not written.
"""

import struct
from collections.abc import Sequence
from typing import Final, Generic, NamedTuple, Protocol, TypeVar

from millstream.errors import MalformedFrame
from millstream.wire.primitives import (
    INT32,
    INT64,
    UUID_SIZE,
    ZERO_UUID,
    NodeEndpoint,
    compact_string,
    encode_node_endpoints,
    nullable_string,
    read_count,
    read_string,
    read_tags,
    skip_tags,
    tagged_fields,
    unsigned_varint,
)

LOWEST_VERSION: Final = 4
HIGHEST_VERSION: Final = 18
MAX_PARTITIONS: Final = 100_000
"""Most partitions in one request, asked for and forgotten together."""
CONSUMER: Final = -1
"""The replica id of a client that is no replica."""
UNKNOWN_HIGH_WATERMARK: Final = 2**63 - 1

_FIRST_WITH_SESSION: Final = 7
_FIRST_WITH_RACK: Final = 11
_FIRST_FLEXIBLE: Final = 12
_FIRST_WITH_TOPIC_ID: Final = 13
_FIRST_WITH_REPLICA_STATE: Final = 15
FIRST_WITH_ENDPOINTS: Final = 16

_LIMITS: Final = struct.Struct(">iiib")
_SESSION: Final = struct.Struct(">ii")
_PARTITION_4: Final = struct.Struct(">iqi")
_PARTITION_5: Final = struct.Struct(">iqqi")
_PARTITION_9: Final = struct.Struct(">iiqqi")
_PARTITION_12: Final = struct.Struct(">iiqiqi")
_PARTITION_12_WITHOUT_TAGS: Final = struct.Struct(">iiqiqix")
_REPLICA_STATE: Final = struct.Struct(">iq")

_HEAD_4: Final = struct.Struct(">iii")
_HEAD_7: Final = struct.Struct(">iiihi")
_HEAD_12: Final = struct.Struct(">iibihi")
_ANSWER_4: Final = struct.Struct(">ihqq")
_ANSWER_5: Final = struct.Struct(">ihqqq")
_ANSWER_12: Final = struct.Struct(">ihqqqbi")
_ABORTED_4: Final = struct.Struct(">qq")
_ABORTED_12: Final = struct.Struct(">qqb")
_DIVERGING_EPOCH: Final = struct.Struct(">iqb")
_LEADER: Final = struct.Struct(">iib")
_NULL_ARRAY: Final = INT32.pack(-1)
_ONE: Final = b"\x02"
"""The count of an array of one, from version 12 on."""
_NO_TAGS: Final = b"\x00\x00\x00"
"""Of a partition, its topic and the answer."""


class FetchPartition(NamedTuple):
    """What is wanted from one partition."""

    partition: int
    current_leader_epoch: int
    fetch_offset: int
    last_fetched_epoch: int
    log_start_offset: int
    max_bytes: int
    replica_directory_id: bytes | None = None
    high_watermark: int = UNKNOWN_HIGH_WATERMARK


class FetchTopic(NamedTuple):
    """Partitions of a topic, which is known by its name before version 13 and by its id from then on."""

    name: str | None
    topic_id: bytes | None
    partitions: list[FetchPartition]


class ForgottenTopic(NamedTuple):
    """Partitions that leave the fetch session."""

    name: str | None
    topic_id: bytes | None
    partitions: list[int]


class FetchRequest(NamedTuple):
    """A Fetch request of any version; what a version does not have is its default."""

    replica_id: int
    max_wait_ms: int
    min_bytes: int
    max_bytes: int
    isolation_level: int
    session_id: int
    session_epoch: int
    topics: list[FetchTopic]
    forgotten_topics: list[ForgottenTopic]
    rack_id: str | None = None
    """Where the consumer is; None before version 11, when consumers read from leaders only (KIP-392)."""
    replica_epoch: int = -1
    cluster_id: str | None = None


class Region(Protocol):
    """Records somewhere else, most often in a file, of which only the length matters here."""

    @property
    def length(self) -> int:
        """Number of bytes."""


RegionT = TypeVar("RegionT", bound=Region)


class PartitionFetched(NamedTuple, Generic[RegionT]):
    """The answer for one partition."""

    partition: int
    error_code: int = 0
    high_watermark: int = -1
    last_stable_offset: int = -1
    log_start_offset: int = -1
    records: RegionT | None = None
    aborted_transactions: Sequence[tuple[int, int]] | None = None
    """Producer id and first offset of each, in the order of the offsets; null for a reader of uncommitted records."""
    preferred_read_replica: int = -1
    diverging_epoch: tuple[int, int] | None = None
    """Largest epoch not above the follower's, and its end offset."""
    leader: tuple[int, int] | None = None
    """Id and epoch of the leader that the client should turn to instead."""


class TopicFetched(NamedTuple, Generic[RegionT]):
    """The answers for the partitions of one topic; the name or the id goes out, as the version wants."""

    name: str | None
    topic_id: bytes | None
    partitions: Sequence[PartitionFetched[RegionT]]


def decode_request(body: memoryview, version: int, *, start: int = 0) -> FetchRequest:
    """The request whose body begins at `start`; nothing in it refers to `body` afterwards."""
    try:
        return _decode(body, start, version=version)
    except (IndexError, struct.error):
        raise MalformedFrame("a Fetch request ends in the middle of a field") from None


def _decode(body: memoryview, position: int, *, version: int) -> FetchRequest:
    replica_id, session_id, session_epoch = CONSUMER, 0, -1
    if version < _FIRST_WITH_REPLICA_STATE:
        replica_id = INT32.unpack_from(body, position)[0]
        position += 4
    max_wait_ms, min_bytes, max_bytes, isolation_level = _LIMITS.unpack_from(body, position)
    position += 13
    forgotten: list[ForgottenTopic] = []
    if version < _FIRST_WITH_SESSION:
        topics, position = _decode_topics(body, position, version=version)
        return FetchRequest(replica_id, max_wait_ms, min_bytes, max_bytes, isolation_level, session_id, session_epoch, topics, forgotten)
    session_id, session_epoch = _SESSION.unpack_from(body, position)
    topics, position = _decode_topics(body, position + 8, version=version)
    forgotten, position = _decode_forgotten(body, position, version=version)
    rack_id, replica_epoch, cluster_id = None, -1, None
    if version >= _FIRST_WITH_RACK:
        if version >= _FIRST_FLEXIBLE and body[position] == 1:
            rack_id = ""
            position += 1
        else:
            rack_id, position = read_string(body, position, flexible=version >= _FIRST_FLEXIBLE)
    if version >= _FIRST_FLEXIBLE and body[position] != 0:
        for tag, begin, end in read_tags(body, position)[0]:
            if tag == 0:
                cluster_id, _ = read_string(body[begin:end], 0, flexible=True)
            elif tag == 1 and version >= _FIRST_WITH_REPLICA_STATE:
                replica_id, replica_epoch = _REPLICA_STATE.unpack_from(body[begin:end])
    return FetchRequest(
        replica_id,
        max_wait_ms,
        min_bytes,
        max_bytes,
        isolation_level,
        session_id,
        session_epoch,
        topics,
        forgotten,
        rack_id,
        replica_epoch,
        cluster_id,
    )


def _decode_topics(body: memoryview, position: int, *, version: int) -> tuple[list[FetchTopic], int]:
    is_flexible = version >= _FIRST_FLEXIBLE
    if is_flexible and body[position] == 1:
        return [], position + 1
    topic_count, position = read_count(body, position, flexible=is_flexible, element_size=3)
    topics = []
    partitions_left = MAX_PARTITIONS
    for _ in range(topic_count):
        name, topic_id, position = _read_topic_key(body, position, version=version)
        count, position = read_count(body, position, flexible=is_flexible, element_size=16)
        partitions_left -= count
        if partitions_left < 0:
            raise MalformedFrame(f"a Fetch request with more than {MAX_PARTITIONS} partitions")
        if is_flexible:
            partitions, position = _decode_partitions(body, position, count=count, version=version)
            position = position + 1 if body[position] == 0 else skip_tags(body, position)
        else:
            partitions, position = _decode_legacy_partitions(body, position, count=count, version=version)
        topics.append(FetchTopic(name, topic_id, partitions))
    return topics, position


def _read_topic_key(body: memoryview, position: int, *, version: int) -> tuple[str | None, bytes | None, int]:
    if version >= _FIRST_WITH_TOPIC_ID:
        end = position + UUID_SIZE
        return None, bytes(body[position:end]), end
    name, position = read_string(body, position, flexible=version >= _FIRST_FLEXIBLE)
    return name, None, position


def _decode_partitions(body: memoryview, position: int, *, count: int, version: int) -> tuple[list[FetchPartition], int]:
    if count == 1 and body[position + _PARTITION_12.size] == 0:
        return [FetchPartition(*_PARTITION_12.unpack_from(body, position))], position + _PARTITION_12.size + 1
    # Consumers send no tags, so every partition takes the same number of bytes, and the byte that counts its tags is a zero at the end of
    # each. If that holds for all, by induction they are where they seem to be, and can be read at one go.
    size = _PARTITION_12_WITHOUT_TAGS.size
    end = position + size * count
    if end <= len(body) and not any(body[position + size - 1 : end : size]):
        return [FetchPartition(*fields) for fields in _PARTITION_12_WITHOUT_TAGS.iter_unpack(body[position:end])], end
    partitions = []
    for _ in range(count):
        partition = FetchPartition(*_PARTITION_12.unpack_from(body, position))
        partition, position = _with_tags(body, position + _PARTITION_12.size, partition=partition, version=version)
        partitions.append(partition)
    return partitions, position


def _decode_legacy_partitions(body: memoryview, position: int, *, count: int, version: int) -> tuple[list[FetchPartition], int]:
    layout = _PARTITION_9 if version >= 9 else _PARTITION_5 if version >= 5 else _PARTITION_4
    end = position + layout.size * count
    rows = layout.iter_unpack(body[position:end])
    if version >= 9:
        partitions = [FetchPartition(index, epoch, offset, -1, start, size) for index, epoch, offset, start, size in rows]
    elif version >= 5:
        partitions = [FetchPartition(index, -1, offset, -1, start, size) for index, offset, start, size in rows]
    else:
        partitions = [FetchPartition(index, -1, offset, -1, -1, size) for index, offset, size in rows]
    if len(partitions) != count:
        raise MalformedFrame(f"{count} partitions do not fit into the {len(body) - position} bytes left of a Fetch request")
    return partitions, end


def _with_tags(body: memoryview, position: int, *, partition: FetchPartition, version: int) -> tuple[FetchPartition, int]:
    tags, position = read_tags(body, position)
    for tag, begin, end in tags:
        if tag == 0 and version >= 17:
            if end - begin < UUID_SIZE:
                raise MalformedFrame("a replica directory id is shorter than 16 bytes")
            partition = partition._replace(replica_directory_id=bytes(body[begin : begin + UUID_SIZE]))
        elif tag == 1 and version >= 18:
            partition = partition._replace(high_watermark=INT64.unpack_from(body[begin:end])[0])
    return partition, position


def _decode_forgotten(body: memoryview, position: int, *, version: int) -> tuple[list[ForgottenTopic], int]:
    is_flexible = version >= _FIRST_FLEXIBLE
    if is_flexible and body[position] == 1:
        return [], position + 1
    topic_count, position = read_count(body, position, flexible=is_flexible, element_size=3)
    topics = []
    partitions_left = MAX_PARTITIONS
    for _ in range(topic_count):
        name, topic_id, position = _read_topic_key(body, position, version=version)
        count, position = read_count(body, position, flexible=is_flexible, element_size=4)
        partitions_left -= count
        if partitions_left < 0:
            raise MalformedFrame(f"a Fetch request that forgets more than {MAX_PARTITIONS} partitions")
        partitions = list(struct.unpack_from(f">{count}i", body, position))
        position += 4 * count
        topics.append(ForgottenTopic(name, topic_id, partitions))
        if is_flexible:
            position = skip_tags(body, position)
    return topics, position


def encode_response(
    version: int,
    correlation_id: int,
    *,
    topics: Sequence[TopicFetched[RegionT]],
    error_code: int = 0,
    session_id: int = 0,
    throttle_time_ms: int = 0,
    node_endpoints: Sequence[NodeEndpoint] = (),
) -> list[bytes | RegionT]:
    """The whole answer: bytes and, between them, the regions; the size at the front counts both. It begins with bytes."""
    is_flexible = version >= _FIRST_FLEXIBLE
    if is_flexible and len(topics) == 1 and len(topics[0].partitions) == 1 and not node_endpoints and _is_plain(topics[0].partitions[0]):
        return _encode_one(version, (correlation_id, throttle_time_ms, error_code, session_id), topics[0])
    chunks: list[bytes | RegionT] = []
    size = 0
    pending = [unsigned_varint(len(topics) + 1) if is_flexible else INT32.pack(len(topics))]
    for name, topic_id, partitions in topics:
        if version >= _FIRST_WITH_TOPIC_ID:
            pending.append(topic_id or ZERO_UUID)
        else:
            assert name is not None
            pending.append(compact_string(name) if is_flexible else nullable_string(name))
        pending.append(unsigned_varint(len(partitions) + 1) if is_flexible else INT32.pack(len(partitions)))
        for partition in partitions:
            pending.append(_encode_until_records(version, partition))
            records = partition.records
            if records is not None and records.length:
                before = b"".join(pending)
                size += len(before) + records.length
                chunks += (before, records)
                pending = []
            if is_flexible:
                has_tags = partition.diverging_epoch is not None or partition.leader is not None
                pending.append(_encode_tags(partition) if has_tags else b"\x00")
        if is_flexible:
            pending.append(b"\x00")
    if node_endpoints and version >= FIRST_WITH_ENDPOINTS:
        pending.append(encode_node_endpoints(node_endpoints))
    elif is_flexible:
        pending.append(b"\x00")
    last = b"".join(pending)
    size += len(last)
    if last:
        chunks.append(last)
    first = chunks[0]
    assert isinstance(first, bytes)
    chunks[0] = _encode_head(version, (correlation_id, throttle_time_ms, error_code, session_id), size=size) + first
    return chunks


def _is_plain(partition: PartitionFetched[RegionT]) -> bool:
    """Whether nothing in the answer but its records has a size of its own."""
    return partition.diverging_epoch is None and partition.leader is None and not partition.aborted_transactions


def _encode_one(version: int, head: tuple[int, int, int, int], topic: TopicFetched[RegionT]) -> list[bytes | RegionT]:
    """What most answers are: one plain partition, from version 12 on."""
    name, topic_id, [partition] = topic
    index, error_code, high_watermark, stable_offset, start_offset, records, aborted, preferred, _, _ = partition
    length = 0 if records is None else records.length
    key = topic_id or ZERO_UUID if version >= _FIRST_WITH_TOPIC_ID else compact_string(name or "")
    fixed = _ANSWER_12.pack(index, error_code, high_watermark, stable_offset, start_offset, 0 if aborted is None else 1, preferred)
    before = b"".join((_ONE, key, _ONE, fixed, unsigned_varint(length + 1)))
    first = _encode_head(version, head, size=len(before) + length + len(_NO_TAGS)) + before
    return [first, records, _NO_TAGS] if records is not None and length else [first + _NO_TAGS]


def _encode_head(version: int, fields: tuple[int, int, int, int], *, size: int) -> bytes:
    correlation_id, throttle_time_ms, error_code, session_id = fields
    if version >= _FIRST_FLEXIBLE:
        return _HEAD_12.pack(size + 15, correlation_id, 0, throttle_time_ms, error_code, session_id)
    if version >= _FIRST_WITH_SESSION:
        return _HEAD_7.pack(size + 14, correlation_id, throttle_time_ms, error_code, session_id)
    return _HEAD_4.pack(size + 8, correlation_id, throttle_time_ms)


def _encode_until_records(version: int, partition: PartitionFetched[RegionT]) -> bytes:
    index, error_code, high_watermark, stable_offset, start_offset, records, aborted, preferred, _, _ = partition
    length = 0 if records is None else records.length
    if version >= _FIRST_FLEXIBLE:
        if aborted is None:
            fixed = _ANSWER_12.pack(index, error_code, high_watermark, stable_offset, start_offset, 0, preferred)
        else:
            fixed = _ANSWER_5.pack(index, error_code, high_watermark, stable_offset, start_offset)
            transactions = b"".join(_ABORTED_12.pack(producer_id, first_offset, 0) for producer_id, first_offset in aborted)
            fixed += unsigned_varint(len(aborted) + 1) + transactions + INT32.pack(preferred)
        return fixed + unsigned_varint(length + 1)
    if version >= 5:
        fixed = _ANSWER_5.pack(index, error_code, high_watermark, stable_offset, start_offset)
    else:
        fixed = _ANSWER_4.pack(index, error_code, high_watermark, stable_offset)
    if aborted is None:
        fixed += _NULL_ARRAY
    else:
        fixed += INT32.pack(len(aborted)) + b"".join(_ABORTED_4.pack(producer_id, offset) for producer_id, offset in aborted)
    if version >= _FIRST_WITH_RACK:
        fixed += INT32.pack(preferred)
    return fixed + INT32.pack(length)


def _encode_tags(partition: PartitionFetched[RegionT]) -> bytes:
    fields = []
    if partition.diverging_epoch is not None:
        fields.append((0, _DIVERGING_EPOCH.pack(*partition.diverging_epoch, 0)))
    if partition.leader is not None:
        fields.append((1, _LEADER.pack(*partition.leader, 0)))
    return tagged_fields(fields)
