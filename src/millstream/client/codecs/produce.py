"""Produce as a client sends it, version 9: batches that are already encoded go out as they are, without being copied or looked at.

Version 9 (Kafka 2.4) is the first flexible one; the newer ones have the same layout but for tagged fields, and from 13 on want topic ids.
Version 12 also adds the partitions to the transaction of its batches (KIP-890), where the cluster has agreed on that. One batch per
partition and request: brokers refuse more. `tests/properties/test_client_produce.py` holds both directions equal to kio. The layout of the
message is drawn in `wire.produce`.

    request = ProduceRequest([BatchFor("clicks", 0, batch)])
    [produced] = connection.call(request).partitions
"""

import struct
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

from millstream.buffer import Buffer
from millstream.errors import MalformedFrame
from millstream.topic_partition import TopicPartition
from millstream.wire.api import ApiKey
from millstream.wire.primitives import INT32, compact_string, read_count, read_nullable_string, read_string, skip_tags, unsigned_varint

ALL_REPLICAS: Final = -1
LEADER_ONLY: Final = 1
NO_ANSWER: Final = 0

WITHOUT_ADDING_PARTITIONS: Final = 9
FIRST_THAT_ADDS_PARTITIONS: Final = 12
_ACKS_AND_TIMEOUT: Final = struct.Struct(">hi")
_PRODUCED: Final = struct.Struct(">ihqqq")
_SMALLEST_PARTITION: Final = 33
_SMALLEST_RECORD_ERROR: Final = 6


class BatchFor(NamedTuple):
    """One whole batch for one partition."""

    topic: str
    partition: int
    batch: Buffer


class ProducedPartition(NamedTuple):
    """The answer for one partition; the base offset is that of the batch's first record."""

    topic: str
    partition: int
    error_code: int
    base_offset: int
    log_append_time_ms: int
    log_start_offset: int
    error_message: str | None

    @property
    def topic_partition(self) -> TopicPartition:
        """Which partition this is."""
        return TopicPartition(self.topic, self.partition)


class ProduceAnswer(NamedTuple):
    """The whole answer."""

    throttle_time_ms: int
    partitions: list[ProducedPartition]


@dataclass(frozen=True)
class ProduceRequest:
    """Batches for partitions of one leader; with acks=0 there is no answer."""

    batches: Sequence[BatchFor]
    acks: int = ALL_REPLICAS
    timeout_ms: int = 30_000
    transactional_id: str | None = None
    version: int = WITHOUT_ADDING_PARTITIONS

    api_key = int(ApiKey.PRODUCE)

    @property
    def versions(self) -> tuple[int, int]:
        return self.version, self.version

    @property
    def has_answer(self) -> bool:
        return self.acks != NO_ANSWER

    def encode(self, version: int) -> Sequence[Buffer]:
        assert version == self.version
        by_topic: dict[str, list[BatchFor]] = {}
        for batch in self.batches:
            by_topic.setdefault(batch.topic, []).append(batch)
        pieces: list[Buffer] = []
        head = compact_string(self.transactional_id) + _ACKS_AND_TIMEOUT.pack(self.acks, self.timeout_ms)
        head += unsigned_varint(len(by_topic) + 1)
        for topic, batches in by_topic.items():
            head += compact_string(topic) + unsigned_varint(len(batches) + 1)
            for _, partition, content in batches:
                pieces += (head + INT32.pack(partition) + unsigned_varint(len(content) + 1), content)
                head = b"\x00"
            head += b"\x00"
        pieces.append(head + b"\x00")
        return pieces

    def decode(self, version: int, body: memoryview) -> ProduceAnswer:
        assert version == self.version
        try:
            return _decode(body)
        except (IndexError, struct.error):
            raise MalformedFrame("an answer to Produce ends in the middle of a field") from None


def _decode(body: memoryview) -> ProduceAnswer:
    topic_count, position = read_count(body, 0, flexible=True, element_size=3)
    partitions: list[ProducedPartition] = []
    for _ in range(topic_count):
        topic, position = read_string(body, position, flexible=True)
        count, position = read_count(body, position, flexible=True, element_size=_SMALLEST_PARTITION)
        for _ in range(count):
            index, error_code, base_offset, time_ms, log_start = _PRODUCED.unpack_from(body, position)
            position = _skip_record_errors(body, position + _PRODUCED.size)
            message, position = read_nullable_string(body, position, flexible=True)
            position = skip_tags(body, position)
            partitions.append(ProducedPartition(topic, index, error_code, base_offset, time_ms, log_start, message))
        position = skip_tags(body, position)
    (throttle_time_ms,) = INT32.unpack_from(body, position)
    skip_tags(body, position + 4)
    return ProduceAnswer(throttle_time_ms, partitions)


def _skip_record_errors(body: memoryview, position: int) -> int:
    if body[position] <= 1:
        return position + 1
    count, position = read_count(body, position, flexible=True, element_size=_SMALLEST_RECORD_ERROR)
    for _ in range(count):
        _, position = read_nullable_string(body, position + 4, flexible=True)
        position = skip_tags(body, position)
    return position
