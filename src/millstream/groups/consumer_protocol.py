"""What consumers of the classic protocol say to each other in JoinGroup and SyncGroup, as far as a broker looks into it.

    subscription   int16 version | array of string topics | bytes user data, or null
                   | array of (string topic, array of int32 partitions) owned (1+) | int32 generation (2+) | string rack id, or null (3+)
    assignment     int16 version | array of (string topic, array of int32 partitions) | bytes user data, or null

A classic group only wants to know the topics. A KIP-848 group that has members of the classic protocol reads all of it, and writes their
assignments. A version above the newest known one is read as that, as Kafka does: new versions only add fields at the end.
"""

import struct
from typing import Final, NamedTuple
from uuid import UUID

from millstream.errors import MalformedFrame
from millstream.groups.consumer.assignors import canonical
from millstream.groups.consumer.records import Assignment
from millstream.groups.fields import FieldReader
from millstream.groups.topic_image import TopicImage
from millstream.wire.primitives import nullable_string

CONSUMER_PROTOCOL_TYPE: Final = "consumer"
"""What a classic group of consumers names itself; others are Connect workers and the like."""

NamedPartitions = tuple[tuple[str, tuple[int, ...]], ...]
"""Partitions by the name of their topic."""

_NEWEST_VERSION: Final = 3
_NO_USER_DATA: Final = struct.pack(">i", -1)
_VERSION_AND_COUNT: Final = struct.Struct(">hi")


class Subscription(NamedTuple):
    """What a member wants, and what it has."""

    topics: tuple[str, ...]
    owned: NamedPartitions = ()
    rack_id: str | None = None


class ClassicAssignment(NamedTuple):
    """What the leader gave to a member."""

    partitions: NamedPartitions
    user_data: bytes = b""


def subscribed_topics(metadata: bytes) -> frozenset[str] | None:
    """The topics of a subscription in the format of Kafka's consumers; None if it is in another."""
    reader = FieldReader(metadata)
    try:
        _read_version(reader)
        return frozenset(_read_topics(reader))
    except MalformedFrame:
        return None


def decode_subscription(metadata: bytes) -> Subscription:
    """The subscription of a member; MalformedFrame if it is none."""
    reader = FieldReader(metadata)
    version = _read_version(reader)
    topics = _read_topics(reader)
    reader.bytes32()
    owned = _read_partitions(reader) if version >= 1 else ()
    if version >= 2:
        reader.int32()
    return Subscription(topics, owned, reader.nullable_string() if version >= 3 else None)


def decode_assignment(content: bytes) -> ClassicAssignment:
    """The assignment of a member; MalformedFrame if it is none."""
    reader = FieldReader(content)
    _read_version(reader)
    return ClassicAssignment(_read_partitions(reader), reader.bytes32())


def encode_assignment(partitions: NamedPartitions, *, version: int) -> bytes:
    """An assignment as the member's own client would have got it from its leader."""
    parts = [_VERSION_AND_COUNT.pack(version, len(partitions))]
    for topic, numbers in partitions:
        parts += (nullable_string(topic), struct.pack(f">i{len(numbers)}i", len(numbers), *numbers))
    return b"".join((*parts, _NO_USER_DATA))


def version_of(metadata: bytes) -> int:
    """The version that a member speaks; MalformedFrame if that cannot be read."""
    return _read_version(FieldReader(metadata))


def by_id(partitions: NamedPartitions, image: TopicImage) -> Assignment:
    """The same partitions by topic id; those of topics that do not exist are left out."""
    known: dict[UUID, set[int]] = {}
    for topic, numbers in partitions:  # which may name a topic more than once
        if topic in image.topics:
            known.setdefault(image.topics[topic].topic_id, set()).update(numbers)
    return canonical(known)


def by_name(assignment: Assignment, image: TopicImage) -> NamedPartitions:
    """The same partitions by the name of their topic; those of topics that do not exist are left out."""
    return tuple((image.names[topic_id], numbers) for topic_id, numbers in assignment if topic_id in image.names)


def _read_version(reader: FieldReader) -> int:
    version = reader.int16()
    if version < 0:
        raise MalformedFrame(f"version {version} of the protocol of consumers is not known")
    return min(version, _NEWEST_VERSION)


def _read_topics(reader: FieldReader) -> tuple[str, ...]:
    return tuple(reader.string() for _ in range(reader.count32()))


def _read_partitions(reader: FieldReader) -> NamedPartitions:
    return tuple((reader.string(), reader.int32s()) for _ in range(reader.count32()))
