"""A committed offset in `__consumer_offsets`, as a value and as bytes.

    key     int16 1 (0 is read too) | string group id | string topic | int32 partition
    value   int16 version |
            0   int64 offset | string metadata | int64 commit timestamp
            1   as 0, and int64 expire timestamp: written for the versions of OffsetCommit that ask for a retention of their own
            2   as 0
            3   int64 offset | int32 leader epoch | string metadata | int64 commit timestamp
            4   as 3 with a compact string, then tagged fields; tag 0 is the id of the topic. Written here, as by Kafka 4.2

Commits are the hottest records of all, so the common shapes are packed and unpacked by one call. Bytes that are cut off or have an unknown
version are a `MalformedFrame`.
"""

import struct
from typing import Final, NamedTuple
from uuid import UUID

from millstream.errors import MalformedFrame
from millstream.groups.fields import FieldReader
from millstream.wire.primitives import UUID_SIZE, ZERO_UUID, unsigned_varint

OFFSET_KEY_TYPES: Final = frozenset((0, 1))
OFFSET_KEY_START: Final = b"\x00\x01"
"""What the key of an offset begins with since Kafka 0.8.2."""
NO_LEADER_EPOCH: Final = -1
NO_EXPIRY: Final = -1

_KEY_START: Final = struct.Struct(">hh")
_LENGTH: Final = struct.Struct(">h")
_PARTITION: Final = struct.Struct(">i")
_VERSION_1: Final = struct.Struct(">hqh")
_TWO_TIMES: Final = struct.Struct(">qq")
_VERSION_4: Final = struct.Struct(">hqi")
_TIME: Final = struct.Struct(">q")
_BARE: Final = struct.Struct(">hqibq")
"""Version 4 up to the tagged fields when the metadata are empty: nearly always."""
_NO_TAGS: Final = b"\x00"
_TOPIC_ID_TAG: Final = b"\x01\x00\x10"
_WITH_TOPIC_ID: Final = struct.Struct(">hqibq3s16s")
"""The same with the id of the topic."""


class CommittedOffset(NamedTuple):
    """The position of a group in one partition."""

    offset: int
    leader_epoch: int
    metadata: str
    commit_timestamp_ms: int
    expire_timestamp_ms: int = NO_EXPIRY
    topic_id: bytes = ZERO_UUID


class OffsetKey(NamedTuple):
    """Whose position, and where."""

    group_id: str
    topic: str
    partition: int


def offset_key_prefix(group_id: str, topic: str) -> bytes:
    """What the keys of all partitions of a topic begin with."""
    group, name = group_id.encode(), topic.encode()
    return _KEY_START.pack(1, len(group)) + group + _LENGTH.pack(len(name)) + name


def encode_offset_key(group_id: str, topic: str, partition: int) -> bytes:
    """The key of one position."""
    return offset_key_prefix(group_id, topic) + _PARTITION.pack(partition)


def decode_offset_key(key: bytes) -> OffsetKey:
    """The key whose type is 0 or 1."""
    try:
        group_end = 4 + (key[2] << 8 | key[3])
        topic_end = group_end + 2 + (key[group_end] << 8 | key[group_end + 1])
        (partition,) = _PARTITION.unpack_from(key, topic_end)
        return OffsetKey(str(key[4:group_end], "utf-8"), str(key[group_end + 2 : topic_end], "utf-8"), partition)
    except (IndexError, struct.error, UnicodeDecodeError):
        raise MalformedFrame("the key of a committed offset is cut off") from None


def encode_offset_value(committed: CommittedOffset) -> bytes:
    """The value in the version that Kafka 4.2 writes for it."""
    offset, leader_epoch, metadata, commit_ms, expire_ms, topic_id = committed
    if expire_ms != NO_EXPIRY:
        text = metadata.encode()
        return _VERSION_1.pack(1, offset, len(text)) + text + _TWO_TIMES.pack(commit_ms, expire_ms)
    tags = _NO_TAGS if topic_id == ZERO_UUID else _TOPIC_ID_TAG + topic_id
    if not metadata:
        return _BARE.pack(4, offset, leader_epoch, 1, commit_ms) + tags
    text = metadata.encode()
    return _VERSION_4.pack(4, offset, leader_epoch) + unsigned_varint(len(text) + 1) + text + _TIME.pack(commit_ms) + tags


def decode_offset_value(value: bytes) -> CommittedOffset:
    """The value in any of its versions."""
    if len(value) == _WITH_TOPIC_ID.size:
        version, offset, leader_epoch, text_size, commit_ms, tag, topic_id = _WITH_TOPIC_ID.unpack(value)
        if version == 4 and text_size == 1 and tag == _TOPIC_ID_TAG:
            return CommittedOffset(offset, leader_epoch, "", commit_ms, NO_EXPIRY, topic_id)
    reader = FieldReader(value)
    version = reader.int16()
    if not 0 <= version <= 4:
        raise MalformedFrame(f"version {version} of a committed offset is not known")
    offset = reader.int64()
    leader_epoch = reader.int32() if version >= 3 else NO_LEADER_EPOCH
    metadata = reader.compact_string() if version >= 4 else reader.string()
    commit_ms = reader.int64()
    expire_ms = reader.int64() if version == 1 else NO_EXPIRY
    topic_id = reader.tags().get(0, ZERO_UUID) if version >= 4 else ZERO_UUID
    if len(topic_id) != UUID_SIZE:
        raise MalformedFrame(f"a topic id of {len(topic_id)} bytes")
    return CommittedOffset(offset, leader_epoch, metadata, commit_ms, expire_ms, topic_id)


def topic_id_bytes(topic_id: UUID | None) -> bytes:
    """A topic id as it is kept with offsets; zeros if it is not known."""
    return ZERO_UUID if topic_id is None else topic_id.bytes
