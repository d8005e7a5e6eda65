"""Bytes from outside: whatever comes, the readers of the coordination protocol raise `MarshallingError` and nothing else."""

import contextlib
import struct

from hypothesis import given
from hypothesis import strategies as st

from millstream.zookeeper.acl import ALL_PERMISSIONS, AclEntry, Identity
from millstream.zookeeper.change import decode_acl, decode_transaction, encode_acl
from millstream.zookeeper.errors import MarshallingError, ZooKeeperError
from millstream.zookeeper.jute import JuteReader, encode_buffer, encode_string
from millstream.zookeeper.protocol import Opcode, decode_connect, read_multi, read_names, read_operation
from millstream.zookeeper.snapshot import decode_snapshot

WRITES = [Opcode.CREATE, Opcode.CREATE_2, Opcode.CREATE_CONTAINER, Opcode.DELETE, Opcode.SET_DATA, Opcode.CHECK]


@given(st.binary(max_size=300))
def test_no_bytes_hurt_the_readers_of_requests(content: bytes) -> None:
    for read in (decode_connect, decode_transaction, decode_snapshot):
        with contextlib.suppress(MarshallingError):
            read(content)
    for read_from in (read_multi, read_names, decode_acl):
        with contextlib.suppress(ZooKeeperError):
            read_from(JuteReader(content))
    for opcode in WRITES:
        with contextlib.suppress(ZooKeeperError):
            read_operation(JuteReader(content), opcode)


@given(st.text(), st.one_of(st.none(), st.binary()))
def test_strings_and_buffers_come_back(text: str, buffer: bytes | None) -> None:
    encodable = text.encode("utf-8", "replace").decode()
    reader = JuteReader(encode_string(encodable) + encode_buffer(buffer))
    assert (reader.read_string(), reader.read_buffer(), reader.remaining) == (encodable, buffer, 0)


@given(st.lists(st.tuples(st.integers(0, ALL_PERMISSIONS), st.text("abc:"), st.text("xyz=/")), max_size=5))
def test_access_lists_come_back(entries: list[tuple[int, str, str]]) -> None:
    acl = tuple(AclEntry(permissions, Identity(scheme, name)) for permissions, scheme, name in entries)
    assert decode_acl(JuteReader(encode_acl(acl))) == acl


@given(st.integers(0, 2**31 - 1), st.binary(max_size=50))
def test_a_count_never_promises_more_than_the_bytes_hold(count: int, rest: bytes) -> None:
    with contextlib.suppress(MarshallingError):
        assert len(read_names(JuteReader(struct.pack(">i", count) + rest))) * 4 <= len(rest)
