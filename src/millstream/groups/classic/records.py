"""The metadata of a classic group in `__consumer_offsets`, as a value and as bytes.

    key     int16 2 | string group id
    value   int16 version (0-4; 3 is what Kafka 4.2 writes, and what is written here)
            string protocol type | int32 generation | string protocol, or null | string leader, or null
            int64 timestamp of the state (2+) | members, each:
                string member id | string group instance id, or null (3+) | string client id | string client host
                int32 rebalance timeout (1+) | int32 session timeout | bytes subscription | bytes assignment

Version 4 has the same fields in the compact form, with tagged fields after each member and at the end.
"""

import struct
from typing import Final, NamedTuple

from millstream.coordinator_shard import CoordinatorRecord
from millstream.errors import MalformedFrame
from millstream.groups.fields import FieldReader
from millstream.wire.primitives import nullable_string

GROUP_METADATA_KEY_TYPE: Final = 2
NO_TIMESTAMP: Final = -1

_KEY_TYPE: Final = struct.pack(">h", GROUP_METADATA_KEY_TYPE)
_VERSION: Final = struct.pack(">h", 3)
_INT32: Final = struct.Struct(">i")
_TIMESTAMP_AND_COUNT: Final = struct.Struct(">qi")
_TIMEOUTS: Final = struct.Struct(">ii")


class MemberRecord(NamedTuple):
    """A member as it is remembered: only the protocol that was chosen."""

    member_id: str
    instance_id: str | None
    client_id: str
    client_host: str
    rebalance_timeout_ms: int
    session_timeout_ms: int
    subscription: bytes
    assignment: bytes


class GroupMetadata(NamedTuple):
    """A generation of a classic group."""

    protocol_type: str
    generation_id: int
    protocol_name: str | None
    leader: str | None
    state_timestamp_ms: int
    members: tuple[MemberRecord, ...]


def group_metadata_record(group_id: str, metadata: GroupMetadata | None) -> CoordinatorRecord:
    """The record that remembers the generation, or forgets the group."""
    key = _KEY_TYPE + nullable_string(group_id)
    return CoordinatorRecord(key, None if metadata is None else encode_group_metadata(metadata))


def decode_group_metadata_key(key: bytes) -> str:
    """The group id in a key of type 2."""
    reader = FieldReader(key)
    reader.int16()
    return reader.string()


def encode_group_metadata(metadata: GroupMetadata) -> bytes:
    """The value in version 3."""
    parts = [
        _VERSION,
        nullable_string(metadata.protocol_type),
        _INT32.pack(metadata.generation_id),
        nullable_string(metadata.protocol_name),
        nullable_string(metadata.leader),
        _TIMESTAMP_AND_COUNT.pack(metadata.state_timestamp_ms, len(metadata.members)),
    ]
    for member in metadata.members:
        parts += map(nullable_string, member[:4])
        parts += (
            _TIMEOUTS.pack(member.rebalance_timeout_ms, member.session_timeout_ms),
            _INT32.pack(len(member.subscription)),
            member.subscription,
            _INT32.pack(len(member.assignment)),
            member.assignment,
        )
    return b"".join(parts)


def decode_group_metadata(value: bytes) -> GroupMetadata:
    """The value in any of its versions."""
    reader = FieldReader(value)
    version = reader.int16()
    if not 0 <= version <= 4:
        raise MalformedFrame(f"version {version} of the metadata of a group is not known")
    is_flexible = version >= 4
    nullable = reader.compact_nullable_string if is_flexible else reader.nullable_string
    protocol_type = nullable() or ""
    generation_id = reader.int32()
    protocol_name, leader = nullable(), nullable()
    timestamp_ms = reader.int64() if version >= 2 else NO_TIMESTAMP
    count = reader.compact_count() if is_flexible else reader.count32()
    members = tuple(_decode_member(reader, version) for _ in range(count))
    if is_flexible:
        reader.tags()
    return GroupMetadata(protocol_type, generation_id, protocol_name, leader, timestamp_ms, members)


def _decode_member(reader: FieldReader, version: int) -> MemberRecord:
    is_flexible = version >= 4
    string = reader.compact_string if is_flexible else reader.string
    nullable = reader.compact_nullable_string if is_flexible else reader.nullable_string
    content = reader.compact_bytes if is_flexible else reader.bytes32
    member_id = string()
    instance_id = nullable() if version >= 3 else None
    client_id, client_host = string(), string()
    rebalance_timeout_ms = reader.int32() if version >= 1 else -1
    session_timeout_ms = reader.int32()
    subscription, assignment = content(), content()
    if is_flexible:
        reader.tags()
    if rebalance_timeout_ms == -1:
        rebalance_timeout_ms = session_timeout_ms
    return MemberRecord(member_id, instance_id, client_id, client_host, rebalance_timeout_ms, session_timeout_ms, subscription, assignment)
