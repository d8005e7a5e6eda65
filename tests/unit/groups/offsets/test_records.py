import struct
from uuid import UUID

import pytest

from millstream.errors import MalformedFrame
from millstream.groups.offsets.records import (
    CommittedOffset,
    OffsetKey,
    decode_offset_key,
    decode_offset_value,
    encode_offset_key,
    encode_offset_value,
)

TOPIC_ID = UUID(int=5).bytes


def old_value(version: int, *, leader_epoch: bytes = b"", rest: bytes = b"") -> bytes:
    return struct.pack(">hq", version, 42) + leader_epoch + b"\x00\x04note" + struct.pack(">q", 7) + rest


@pytest.mark.parametrize(
    ("value", "committed"),
    [
        (old_value(0), CommittedOffset(42, -1, "note", 7)),
        (old_value(1, rest=struct.pack(">q", 99)), CommittedOffset(42, -1, "note", 7, 99)),
        (old_value(2), CommittedOffset(42, -1, "note", 7)),
        (old_value(3, leader_epoch=struct.pack(">i", 6)), CommittedOffset(42, 6, "note", 7)),
    ],
)
def test_every_old_version_is_read(value: bytes, committed: CommittedOffset) -> None:
    assert decode_offset_value(value) == committed


@pytest.mark.parametrize("topic_id", [bytes(16), TOPIC_ID])
@pytest.mark.parametrize("metadata", ["", "note", "ü" * 200])
@pytest.mark.parametrize("expire_timestamp_ms", [-1, 99])
def test_what_is_written_is_read(metadata: str, topic_id: bytes, expire_timestamp_ms: int) -> None:
    committed = CommittedOffset(42, 6, metadata, 7, expire_timestamp_ms, topic_id)
    read = decode_offset_value(encode_offset_value(committed))
    if expire_timestamp_ms == -1:
        assert read == committed
    else:  # only version 1 has room for the expiry, and it has none for the others
        assert read == committed._replace(leader_epoch=-1, topic_id=bytes(16))


def test_tags_that_are_not_known_are_passed_over() -> None:
    value = encode_offset_value(CommittedOffset(1, 2, "", 3))[:-1] + b"\x01\x07\x02ab"
    assert decode_offset_value(value) == CommittedOffset(1, 2, "", 3)


def test_keys_of_both_versions_are_read() -> None:
    key = encode_offset_key("grüppe", "topic", 3)
    assert decode_offset_key(key) == OffsetKey("grüppe", "topic", 3)
    assert decode_offset_key(b"\x00\x00" + key[2:]) == OffsetKey("grüppe", "topic", 3)


@pytest.mark.parametrize("length", range(2, 15))
def test_a_key_that_is_cut_off_makes_no_sense(length: int) -> None:
    with pytest.raises(MalformedFrame):
        decode_offset_key(encode_offset_key("group", "topic", 3)[:length])


def test_lengths_below_nothing_make_no_sense() -> None:
    with pytest.raises(MalformedFrame):
        decode_offset_key(struct.pack(">hhhi", 1, -2, -2, 0))


def test_a_version_from_the_future_makes_no_sense() -> None:
    with pytest.raises(MalformedFrame, match="version 5"):
        decode_offset_value(struct.pack(">hqihqb", 5, 1, 1, 0, 1, 0))
