"""The records of a KIP-848 group in `__consumer_offsets`, as values and as bytes.

    key     int16 type | string group id | string member id or regular expression, where there is one
    value   int16 version (0) | fields in the flexible encoding | tagged fields

    3   metadata of the group        epoch, hash of the metadata of the topics (tag 0)
    5   metadata of a member         who it is, what it subscribes to; tag 0: a byte 1 and the protocols of a classic member, else a byte 0
    6   target assignment            the epoch it was computed for
    7   target assignment, member    partitions by topic id
    8   current assignment, member   epochs, state, partitions assigned and partitions being revoked
    16  regular expression           the topics it matched

Bytes that are cut off or have an unknown version are a `MalformedFrame`.
"""

import struct
from enum import IntEnum
from typing import Final, NamedTuple
from uuid import UUID

from millstream.coordinator_shard import CoordinatorRecord
from millstream.errors import MalformedFrame
from millstream.groups.fields import FieldReader
from millstream.wire.primitives import compact_string, nullable_string, tagged_fields, unsigned_varint

Assignment = tuple[tuple[UUID, tuple[int, ...]], ...]
"""Partitions by topic id."""

_INT16: Final = struct.Struct(">h")
_INT32: Final = struct.Struct(">i")
_INT64: Final = struct.Struct(">q")
_CURRENT: Final = struct.Struct(">hiib")
_VERSION: Final = b"\x00\x00"
_NO_TAGS: Final = b"\x00"
_FORMER_SUBSCRIPTION_METADATA: Final = 4


class ConsumerRecordType(IntEnum):
    """The types of keys that belong to KIP-848 groups."""

    GROUP_METADATA = 3
    MEMBER_METADATA = 5
    TARGET_ASSIGNMENT = 6
    TARGET_ASSIGNMENT_MEMBER = 7
    CURRENT_ASSIGNMENT = 8
    REGULAR_EXPRESSION = 16


class ConsumerKey(NamedTuple):
    """What a record is about."""

    record_type: ConsumerRecordType
    group_id: str
    name: str = ""
    """The member id or the regular expression; empty for the types that have none."""


class GroupEpoch(NamedTuple):
    """Value of GROUP_METADATA."""

    epoch: int
    metadata_hash: int = 0


class ClassicProtocols(NamedTuple):
    """What a member that speaks the classic protocol brought along."""

    session_timeout_ms: int
    protocols: tuple[tuple[str, bytes], ...]


class MemberMetadata(NamedTuple):
    """Value of MEMBER_METADATA."""

    instance_id: str | None
    rack_id: str | None
    client_id: str
    client_host: str
    subscribed_topic_names: tuple[str, ...]
    subscribed_topic_regex: str | None
    rebalance_timeout_ms: int
    server_assignor: str | None
    classic: ClassicProtocols | None = None


class TargetAssignmentEpoch(NamedTuple):
    """Value of TARGET_ASSIGNMENT."""

    assignment_epoch: int


class TargetAssignment(NamedTuple):
    """Value of TARGET_ASSIGNMENT_MEMBER."""

    partitions: Assignment


class CurrentAssignment(NamedTuple):
    """Value of CURRENT_ASSIGNMENT. States as Kafka numbers them: 0 stable, 1 unrevoked partitions, 2 unreleased partitions."""

    member_epoch: int
    previous_member_epoch: int
    state: int
    assigned: Assignment
    pending_revocation: Assignment


class RegularExpression(NamedTuple):
    """Value of REGULAR_EXPRESSION."""

    topics: tuple[str, ...]
    version: int
    timestamp_ms: int


ConsumerValue = GroupEpoch | MemberMetadata | TargetAssignmentEpoch | TargetAssignment | CurrentAssignment | RegularExpression

_NAMED: Final = frozenset(
    (
        ConsumerRecordType.MEMBER_METADATA,
        ConsumerRecordType.TARGET_ASSIGNMENT_MEMBER,
        ConsumerRecordType.CURRENT_ASSIGNMENT,
        ConsumerRecordType.REGULAR_EXPRESSION,
    )
)


def consumer_record(key: ConsumerKey, value: ConsumerValue | None) -> CoordinatorRecord:
    """The record that sets the key to the value, or deletes it."""
    return CoordinatorRecord(encode_consumer_key(key), None if value is None else encode_consumer_value(value))


def former_subscription_metadata_tombstone(group_id: str) -> CoordinatorRecord:
    """Deletes what Kafka before 4.1 remembered of the subscribed topics (type 4); 4.2 writes it whenever it deletes a group."""
    return CoordinatorRecord(_INT16.pack(_FORMER_SUBSCRIPTION_METADATA) + nullable_string(group_id), None)


def encode_consumer_key(key: ConsumerKey) -> bytes:
    """The key's bytes."""
    encoded = _INT16.pack(key.record_type) + nullable_string(key.group_id)
    return encoded + nullable_string(key.name) if key.record_type in _NAMED else encoded


def decode_consumer_key(key: bytes) -> ConsumerKey:
    """The key of a record whose type is one of `ConsumerRecordType`."""
    reader = FieldReader(key)
    record_type = ConsumerRecordType(reader.int16())
    return ConsumerKey(record_type, reader.string(), reader.string() if record_type in _NAMED else "")


def encode_consumer_value(value: ConsumerValue) -> bytes:
    """The value's bytes, in version 0."""
    match value:
        case GroupEpoch():
            tags = [(0, _INT64.pack(value.metadata_hash))] if value.metadata_hash else []
            return _VERSION + _INT32.pack(value.epoch) + tagged_fields(tags)
        case MemberMetadata():
            return _encode_member(value)
        case TargetAssignmentEpoch():
            return _VERSION + _INT32.pack(value.assignment_epoch) + _NO_TAGS
        case TargetAssignment():
            return _VERSION + _encode_assignment(value.partitions) + _NO_TAGS
        case CurrentAssignment():
            numbers = _CURRENT.pack(0, value.member_epoch, value.previous_member_epoch, value.state)
            return numbers + _encode_assignment(value.assigned) + _encode_assignment(value.pending_revocation) + _NO_TAGS
        case RegularExpression():
            times = _INT64.pack(value.version) + _INT64.pack(value.timestamp_ms)
            return _VERSION + _encode_strings(value.topics) + times + _NO_TAGS


def decode_consumer_value(record_type: ConsumerRecordType, value: bytes) -> ConsumerValue:
    """The value of a record of that type."""
    reader = FieldReader(value)
    version = reader.int16()
    if version != 0:
        raise MalformedFrame(f"version {version} of a {record_type.name} record is not known")
    match record_type:
        case ConsumerRecordType.GROUP_METADATA:
            epoch = reader.int32()
            content = reader.tags().get(0)
            return GroupEpoch(epoch, FieldReader(content).int64() if content is not None else 0)
        case ConsumerRecordType.MEMBER_METADATA:
            return _decode_member(reader)
        case ConsumerRecordType.TARGET_ASSIGNMENT:
            return TargetAssignmentEpoch(reader.int32())
        case ConsumerRecordType.TARGET_ASSIGNMENT_MEMBER:
            return TargetAssignment(_decode_assignment(reader))
        case ConsumerRecordType.CURRENT_ASSIGNMENT:
            epochs = reader.int32(), reader.int32(), reader.int8()
            return CurrentAssignment(*epochs, _decode_assignment(reader), _decode_assignment(reader))
        case ConsumerRecordType.REGULAR_EXPRESSION:
            return RegularExpression(_decode_strings(reader), reader.int64(), reader.int64())


def _encode_member(member: MemberMetadata) -> bytes:
    parts = [_VERSION, *(compact_string(text) for text in member[:4]), _encode_strings(member.subscribed_topic_names)]
    parts += (
        compact_string(member.subscribed_topic_regex),
        _INT32.pack(member.rebalance_timeout_ms),
        compact_string(member.server_assignor),
    )
    classic = b"\x00"
    if member.classic is not None:
        content = [b"\x01", _INT32.pack(member.classic.session_timeout_ms), unsigned_varint(len(member.classic.protocols) + 1)]
        for name, metadata in member.classic.protocols:
            content += (compact_string(name), unsigned_varint(len(metadata) + 1), metadata, _NO_TAGS)
        classic = b"".join((*content, _NO_TAGS))
    return b"".join((*parts, tagged_fields([(0, classic)])))


def _decode_member(reader: FieldReader) -> MemberMetadata:
    member = MemberMetadata(
        instance_id=reader.compact_nullable_string(),
        rack_id=reader.compact_nullable_string(),
        client_id=reader.compact_string(),
        client_host=reader.compact_string(),
        subscribed_topic_names=_decode_strings(reader),
        subscribed_topic_regex=reader.compact_nullable_string(),
        rebalance_timeout_ms=reader.int32(),
        server_assignor=reader.compact_nullable_string(),
    )
    content = reader.tags().get(0)
    if content is None:
        return member
    nested = FieldReader(content)
    if nested.int8() == 0:
        return member
    session_timeout_ms = nested.int32()
    protocols = []
    for _ in range(nested.compact_count()):
        protocols.append((nested.compact_string(), nested.compact_bytes()))
        nested.tags()
    return member._replace(classic=ClassicProtocols(session_timeout_ms, tuple(protocols)))


def _encode_strings(texts: tuple[str, ...]) -> bytes:
    return unsigned_varint(len(texts) + 1) + b"".join(map(compact_string, texts))


def _decode_strings(reader: FieldReader) -> tuple[str, ...]:
    return tuple(reader.compact_string() for _ in range(reader.compact_count()))


def _encode_assignment(assignment: Assignment) -> bytes:
    parts = [unsigned_varint(len(assignment) + 1)]
    for topic_id, partitions in assignment:
        parts += (topic_id.bytes, unsigned_varint(len(partitions) + 1), struct.pack(f">{len(partitions)}i", *partitions), _NO_TAGS)
    return b"".join(parts)


def _decode_assignment(reader: FieldReader) -> Assignment:
    assignment = []
    for _ in range(reader.compact_count()):
        topic_id = reader.uuid()
        assignment.append((topic_id, tuple(reader.int32() for _ in range(reader.compact_count()))))
        reader.tags()
    return tuple(assignment)
