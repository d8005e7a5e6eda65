"""The records of `__consumer_offsets`: which kind a record is of.

A key begins with an int16 that says what the record is about. 0 and 1 are committed offsets (`offsets.records`), 2 is the metadata of a
classic group (`classic.records`), 3 to 8 and 16 belong to KIP-848 groups (`consumer.records`). Kafka has more kinds (share groups, streams
groups, and 4, which newer versions no longer write); they are skipped when the topic is replayed, as Kafka skips what it does not know.
"""

import struct
from typing import Final

from millstream.coordinator_shard import CoordinatorRecord
from millstream.errors import MalformedFrame
from millstream.groups.classic.records import GROUP_METADATA_KEY_TYPE, GroupMetadata, decode_group_metadata, decode_group_metadata_key
from millstream.groups.consumer.records import ConsumerKey, ConsumerRecordType, ConsumerValue, decode_consumer_key, decode_consumer_value
from millstream.groups.offsets.records import OFFSET_KEY_TYPES, CommittedOffset, OffsetKey, decode_offset_key, decode_offset_value

CONSUMER_KEY_TYPES: Final = frozenset(ConsumerRecordType)
_KEY_TYPE: Final = struct.Struct(">h")

Decoded = tuple[OffsetKey, CommittedOffset | None] | tuple[str, GroupMetadata | None] | tuple[ConsumerKey, ConsumerValue | None] | None
"""Key and value; the key of a classic group is its id. None if this kind of record is not known here."""


def key_type(key: bytes) -> int:
    """What a record is about."""
    if len(key) < 2:
        raise MalformedFrame("a key of the topic of offsets has no type")
    kind: int = _KEY_TYPE.unpack_from(key)[0]
    return kind


def decode_record(record: CoordinatorRecord) -> Decoded:
    """Key and value of a record."""
    key, value = record
    kind = key_type(key)
    if kind in OFFSET_KEY_TYPES:
        return decode_offset_key(key), None if value is None else decode_offset_value(value)
    if kind == GROUP_METADATA_KEY_TYPE:
        return decode_group_metadata_key(key), None if value is None else decode_group_metadata(value)
    if kind in CONSUMER_KEY_TYPES:
        consumer_key = decode_consumer_key(key)
        return consumer_key, None if value is None else decode_consumer_value(consumer_key.record_type, value)
    return None
