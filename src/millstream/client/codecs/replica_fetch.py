"""Fetch as a follower sends it, version 15: topics by id (KIP-516), a fetch session (KIP-227), and who fetches, in which life (KIP-903).

Within a session a request names only partitions whose offset or epoch changed, and those that are no longer wanted; the answer names only
partitions with news. Version 15 is the first that carries the broker epoch of the replica; what later versions add (hints about leaders,
directories of replicas) is of no use between brokers that know it from their coordination. Kafka 4.2 answers it.

Record batches come back as views into the frame that was received. `tests/properties/test_client_replica_fetch.py` holds both directions
equal to kio. The layout of the message is drawn in `wire.fetch`. What a session means for the requests that follow is the caller's.
"""

import struct
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

from millstream.buffer import Buffer
from millstream.client.codecs.fetch import ANSWER_HEAD, PARTITION, SMALLEST_PARTITION, decode_partition
from millstream.errors import MalformedFrame
from millstream.wire.api import ApiKey
from millstream.wire.primitives import INT32, UUID_SIZE, check_left, read_count, read_unsigned_varint, skip_tags, unsigned_varint

_VERSION: Final = 15
_HEAD: Final = struct.Struct(">iiibii")
_READ_UNCOMMITTED: Final = 0
_REPLICA_STATE: Final = struct.Struct(">BBBiqx")
"""One tagged field, 1, of 13 bytes: id and broker epoch of the replica."""
_NO_RACK: Final = b"\x01"
_SMALLEST_TOPIC: Final = UUID_SIZE + 2
_ONE: Final = 2
"""The count of an array of one; 1 is that of an empty one."""
_ONE_WANTED: Final = struct.Struct(">iiibii B16sB iiqiqix BBB BBBiqx")
"""A whole request for one partition that forgets none."""
_ONE_FETCHED: Final = struct.Struct(">ihi B16sB ihqqqbi")
"""An answer with one partition, as far as the size of its records."""
_NO_TAGS: Final = memoryview(b"\x00\x00\x00")
"""Behind the records: of the partition, its topic and the answer."""

ReplicaKey = tuple[bytes, int]
"""The id of a topic, and the number of a partition."""


class ReplicaWanted(NamedTuple):
    """What a follower wants from one partition, and what it thereby says of its own log."""

    topic_id: bytes
    partition: int
    leader_epoch: int
    offset: int
    last_fetched_epoch: int
    log_start_offset: int
    max_bytes: int


class ReplicaFetched(NamedTuple):
    """The answer for one partition. `records` are whole batches as the leader's log has them; the last one may be cut off."""

    key: ReplicaKey
    error_code: int
    high_watermark: int
    log_start_offset: int
    records: memoryview
    diverging_epoch: tuple[int, int] | None
    """The largest epoch that leader and follower may both have, and where it ends in the leader's log."""


class ReplicaFetchAnswer(NamedTuple):
    """The whole answer; `error_code` concerns the request or its session, not a partition."""

    error_code: int
    throttle_time_ms: int
    session_id: int
    partitions: list[ReplicaFetched]


@dataclass(frozen=True)
class ReplicaFetchRequest:
    """Pull from several partitions of one leader; answered when `min_bytes` are there or `max_wait_ms` are over."""

    replica_id: int
    replica_epoch: int
    session_id: int
    session_epoch: int
    wanted: Sequence[ReplicaWanted]
    forgotten: Sequence[ReplicaKey]
    max_wait_ms: int
    min_bytes: int
    max_bytes: int

    api_key = int(ApiKey.FETCH)
    versions = (_VERSION, _VERSION)
    has_answer = True

    def encode(self, version: int) -> Sequence[Buffer]:
        assert version == _VERSION
        if len(self.wanted) == 1 and not self.forgotten:
            return (self._encode_one(self.wanted[0]),)
        by_topic: dict[bytes, list[bytes]] = {}
        for topic_id, partition, leader_epoch, offset, last_epoch, log_start, max_bytes in self.wanted:
            by_topic.setdefault(topic_id, []).append(PARTITION.pack(partition, leader_epoch, offset, last_epoch, log_start, max_bytes))
        forgotten: dict[bytes, list[bytes]] = {}
        for topic_id, partition in self.forgotten:
            forgotten.setdefault(topic_id, []).append(INT32.pack(partition))
        limits = (self.max_wait_ms, self.min_bytes, self.max_bytes)
        parts = [_HEAD.pack(*limits, _READ_UNCOMMITTED, self.session_id, self.session_epoch)]
        for topics in (by_topic, forgotten):
            parts.append(unsigned_varint(len(topics) + 1))
            for topic_id, entries in topics.items():
                parts += (topic_id, unsigned_varint(len(entries) + 1), *entries, b"\x00")
        parts += (_NO_RACK, _REPLICA_STATE.pack(1, 1, _REPLICA_STATE.size - 3, self.replica_id, self.replica_epoch))
        return (b"".join(parts),)

    def _encode_one(self, wanted: ReplicaWanted) -> bytes:
        topic_id, partition, leader_epoch, offset, last_epoch, log_start, max_bytes = wanted
        head = (self.max_wait_ms, self.min_bytes, self.max_bytes, _READ_UNCOMMITTED, self.session_id, self.session_epoch)
        position = (partition, leader_epoch, offset, last_epoch, log_start, max_bytes)
        replica = (1, 1, _REPLICA_STATE.size - 3, self.replica_id, self.replica_epoch)
        return _ONE_WANTED.pack(*head, _ONE, topic_id, _ONE, *position, 0, 1, 1, *replica)

    def decode(self, version: int, body: memoryview) -> ReplicaFetchAnswer:
        assert version == _VERSION
        try:
            return _decode_one(body) or _decode(body)
        except (IndexError, struct.error):
            raise MalformedFrame("an answer to Fetch ends in the middle of a field") from None


def _decode_one(body: memoryview) -> ReplicaFetchAnswer | None:
    """What most answers are: one partition without anything unusual. None for any other, which may be anything."""
    if len(body) <= _ONE_FETCHED.size:
        return None
    fields = _ONE_FETCHED.unpack_from(body)
    throttle_time_ms, error_code, session_id, topic_count, topic_id, count, index, error, high_watermark, _, log_start, aborted, _ = fields
    size, start = read_unsigned_varint(body, _ONE_FETCHED.size)
    end = start + size - 1
    if topic_count != _ONE or count != _ONE or not 0 <= aborted <= 1 or size == 0 or body[end:] != _NO_TAGS:
        return None
    fetched = ReplicaFetched((topic_id, index), error, high_watermark, log_start, body[start:end], None)
    return ReplicaFetchAnswer(error_code, throttle_time_ms, session_id, [fetched])


def _decode(body: memoryview) -> ReplicaFetchAnswer:
    throttle_time_ms, error_code, session_id = ANSWER_HEAD.unpack_from(body)
    topic_count, position = read_count(body, ANSWER_HEAD.size, flexible=True, element_size=_SMALLEST_TOPIC)
    partitions: list[ReplicaFetched] = []
    for _ in range(topic_count):
        check_left(body, position, size=UUID_SIZE)
        topic_id = bytes(body[position : position + UUID_SIZE])
        count, position = read_count(body, position + UUID_SIZE, flexible=True, element_size=SMALLEST_PARTITION)
        for _ in range(count):
            fields, position = decode_partition(body, position)
            index, error, high_watermark, _stable, log_start, _aborted, _preferred, records, diverging, _leader = fields
            partitions.append(ReplicaFetched((topic_id, index), error, high_watermark, log_start, records, diverging))
        position = skip_tags(body, position)
    skip_tags(body, position)
    return ReplicaFetchAnswer(error_code, throttle_time_ms, session_id, partitions)
