"""Fetch as a client sends it, version 12: names of topics, leader epochs, no fetch session. Record batches come back as they are.

Version 12 (Kafka 2.7) is the last that names topics, so nothing has to know topic ids, and a broker that knows the newer ones answers this
one as fast. Records stay views into the frame that was received: no loop here runs over records, and nothing is copied.
`tests/properties/test_client_fetch.py` holds both directions equal to kio. The layout of the message is drawn in `wire.fetch`.

    request = FetchRequest([FetchFrom("clicks", 0, offset=0)], max_wait_ms=500)
    [partition] = connection.call(request).partitions
    for header, batch in split_batches(partition.records): ...
"""

import struct
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

from millstream.buffer import Buffer
from millstream.errors import MalformedFrame
from millstream.topic_partition import TopicPartition
from millstream.wire.api import ApiKey
from millstream.wire.primitives import compact_string, read_count, read_string, read_tags, read_unsigned_varint, skip_tags, unsigned_varint

READ_UNCOMMITTED: Final = 0
READ_COMMITTED: Final = 1
CONSUMER: Final = -1

_VERSION: Final = 12
_HEAD: Final = struct.Struct(">iiiibii")
PARTITION: Final = struct.Struct(">iiqiqix")
"""Number, leader epoch, offset, last fetched epoch, log start offset, most bytes, no tagged fields."""
_TAIL: Final = b"\x01\x01\x00"
"""No forgotten topics, no rack, no tagged fields."""
ANSWER_HEAD: Final = struct.Struct(">ihi")
_ANSWER: Final = struct.Struct(">ihqqq")
_ABORTED: Final = struct.Struct(">qqx")
_EPOCH_AND_END: Final = struct.Struct(">iq")
_LEADER: Final = struct.Struct(">ii")
SMALLEST_PARTITION: Final = 37
_EMPTY: Final = memoryview(b"")

PartitionFields = tuple[int, int, int, int, int, Sequence[tuple[int, int]], int, memoryview, tuple[int, int] | None, tuple[int, int] | None]
"""Those of a `FetchedPartition`, without its topic."""


class FetchFrom(NamedTuple):
    """What is wanted from one partition."""

    topic: str
    partition: int
    offset: int
    max_bytes: int = 1 << 20
    leader_epoch: int = -1
    """Epoch of the leader that the caller believes in; another one is answered with an error (KIP-320)."""
    last_fetched_epoch: int = -1
    log_start_offset: int = -1


class FetchedPartition(NamedTuple):
    """The answer for one partition. `records` are whole batches as the log has them; the last one may be cut off."""

    topic: str
    partition: int
    error_code: int
    high_watermark: int
    last_stable_offset: int
    log_start_offset: int
    aborted_transactions: Sequence[tuple[int, int]]
    """Producer id and first offset of each, for readers of committed records."""
    preferred_read_replica: int
    records: memoryview
    diverging_epoch: tuple[int, int] | None = None
    """For a follower whose last epoch is not the leader's: the largest epoch both have, and its end offset."""
    leader: tuple[int, int] | None = None
    """Id and epoch of the leader to turn to instead."""

    @property
    def topic_partition(self) -> TopicPartition:
        """Which partition this is."""
        return TopicPartition(self.topic, self.partition)


class FetchAnswer(NamedTuple):
    """The whole answer; `error_code` concerns the request, not a partition."""

    error_code: int
    throttle_time_ms: int
    partitions: list[FetchedPartition]


@dataclass(frozen=True)
class FetchRequest:
    """Pull from several partitions of one leader; answered when `min_bytes` are there or `max_wait_ms` are over."""

    wanted: Sequence[FetchFrom]
    max_wait_ms: int = 500
    min_bytes: int = 1
    max_bytes: int = 50 << 20
    """Of all partitions together; the first batch comes even if it is larger."""
    isolation_level: int = READ_UNCOMMITTED
    replica_id: int = CONSUMER

    api_key = int(ApiKey.FETCH)
    versions = (_VERSION, _VERSION)
    has_answer = True

    def encode(self, version: int) -> Sequence[Buffer]:
        assert version == _VERSION
        by_topic: dict[str, list[bytes]] = {}
        for topic, partition, offset, max_bytes, leader_epoch, last_epoch, log_start in self.wanted:
            entry = PARTITION.pack(partition, leader_epoch, offset, last_epoch, log_start, max_bytes)
            by_topic.setdefault(topic, []).append(entry)
        parts = [
            _HEAD.pack(self.replica_id, self.max_wait_ms, self.min_bytes, self.max_bytes, self.isolation_level, 0, -1),
            unsigned_varint(len(by_topic) + 1),
        ]
        for topic, entries in by_topic.items():
            parts += (compact_string(topic), unsigned_varint(len(entries) + 1), *entries, b"\x00")
        parts.append(_TAIL)
        return (b"".join(parts),)

    def decode(self, version: int, body: memoryview) -> FetchAnswer:
        assert version == _VERSION
        try:
            return _decode(body)
        except (IndexError, struct.error):
            raise MalformedFrame("an answer to Fetch ends in the middle of a field") from None


def _decode(body: memoryview) -> FetchAnswer:
    throttle_time_ms, error_code, _session_id = ANSWER_HEAD.unpack_from(body)
    topic_count, position = read_count(body, ANSWER_HEAD.size, flexible=True, element_size=3)
    partitions: list[FetchedPartition] = []
    for _ in range(topic_count):
        topic, position = read_string(body, position, flexible=True)
        count, position = read_count(body, position, flexible=True, element_size=SMALLEST_PARTITION)
        for _ in range(count):
            fields, position = decode_partition(body, position)
            partitions.append(FetchedPartition(topic, *fields))
        position = skip_tags(body, position)
    skip_tags(body, position)
    return FetchAnswer(error_code, throttle_time_ms, partitions)


def decode_partition(body: memoryview, position: int) -> tuple[PartitionFields, int]:
    """The answer for one partition, from version 12 on, and the position after it."""
    index, error_code, high_watermark, stable_offset, log_start = _ANSWER.unpack_from(body, position)
    aborted, position = _decode_aborted(body, position + _ANSWER.size)
    (preferred,) = struct.unpack_from(">i", body, position)
    size, position = read_unsigned_varint(body, position + 4)
    end = position + max(size - 1, 0)
    if end > len(body):
        raise MalformedFrame(f"{size - 1} bytes of records do not fit into the {len(body) - position} bytes left of an answer to Fetch")
    records = body[position:end] if size > 1 else _EMPTY
    diverging = leader = None
    if body[end]:
        tags, position = read_tags(body, end)
        for tag, begin, stop in tags:
            if tag == 0:
                diverging = _EPOCH_AND_END.unpack_from(body[begin:stop])
            elif tag == 1:
                leader = _LEADER.unpack_from(body[begin:stop])
    else:
        position = end + 1
    return (index, error_code, high_watermark, stable_offset, log_start, aborted, preferred, records, diverging, leader), position


def _decode_aborted(body: memoryview, position: int) -> tuple[Sequence[tuple[int, int]], int]:
    if body[position] <= 1:
        return (), position + 1
    count, position = read_count(body, position, flexible=True, element_size=_ABORTED.size)
    aborted = []
    for _ in range(count):
        producer_id, first_offset = struct.unpack_from(">qq", body, position)
        aborted.append((producer_id, first_offset))
        position = skip_tags(body, position + 16)
    return aborted, position
