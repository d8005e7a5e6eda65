import struct

import pytest

from millstream.errors import MalformedFrame
from millstream.groups.classic.records import (
    GroupMetadata,
    MemberRecord,
    decode_group_metadata,
    decode_group_metadata_key,
    encode_group_metadata,
    group_metadata_record,
)
from millstream.wire.primitives import compact_string, nullable_string

MEMBER = MemberRecord("m", "i", "c", "/h", 300, 200, b"subscription", b"assignment")
METADATA = GroupMetadata("consumer", 5, "range", "m", 99, (MEMBER,))


def old_value(version: int) -> bytes:
    """The same group as versions 0 to 4 write it."""
    is_flexible = version >= 4
    string = compact_string if is_flexible else nullable_string

    def content(data: bytes) -> bytes:
        return (bytes([len(data) + 1]) if is_flexible else struct.pack(">i", len(data))) + data

    parts = [struct.pack(">h", version), string("consumer"), struct.pack(">i", 5), string("range"), string("m")]
    parts += [struct.pack(">q", 99)] if version >= 2 else []
    parts += [b"\x02" if is_flexible else struct.pack(">i", 1), string("m")]
    parts += [string("i")] if version >= 3 else []
    parts += [string("c"), string("/h")]
    parts += [struct.pack(">i", 300)] if version >= 1 else []
    parts += [struct.pack(">i", 200), content(b"subscription"), content(b"assignment")]
    return b"".join(parts) + (b"\x00\x00" if is_flexible else b"")


@pytest.mark.parametrize("version", range(5))
def test_every_version_is_read(version: int) -> None:
    member = MEMBER._replace(
        instance_id="i" if version >= 3 else None,
        rebalance_timeout_ms=300 if version >= 1 else 200,
    )
    expected = METADATA._replace(state_timestamp_ms=99 if version >= 2 else -1, members=(member,))
    assert decode_group_metadata(old_value(version)) == expected


def test_version_3_is_written() -> None:
    assert encode_group_metadata(METADATA) == old_value(3)


def test_an_empty_group_has_neither_protocol_nor_leader() -> None:
    empty = GroupMetadata("", 0, None, None, 1, ())
    record = group_metadata_record("group", empty)
    assert decode_group_metadata_key(record.key) == "group"
    assert record.value is not None
    assert decode_group_metadata(record.value) == empty


@pytest.mark.parametrize("version", [0, 3, 4])
def test_a_value_that_is_cut_off_makes_no_sense(version: int) -> None:
    value = old_value(version)
    for length in range(2, len(value)):
        with pytest.raises(MalformedFrame):
            decode_group_metadata(value[:length])
