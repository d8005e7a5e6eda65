import struct

import pytest

from millstream.zookeeper.errors import BadArguments, MarshallingError
from millstream.zookeeper.jute import JuteReader
from millstream.zookeeper.operations import Check, Create, Delete, SetData
from millstream.zookeeper.protocol import (
    Opcode,
    check_length,
    decode_connect,
    encode_connected,
    encode_event,
    encode_names,
    encode_reply,
    encode_result,
    read_multi,
    read_names,
    read_operation,
)
from millstream.zookeeper.watches import WatchEvent, WatchKind
from millstream.zookeeper.znode import ZnodeStat
from tests.unit.zookeeper.raw_client import create_body, multi_body, set_body, version_body

STAT = ZnodeStat(1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11)


def test_the_handshake_is_read_with_and_without_its_last_field() -> None:
    old = struct.pack(">iqiq", 0, 7, 4_000, 5) + struct.pack(">i", 2) + b"pw"
    assert decode_connect(old) == (7, 4_000, 5, b"pw", False)
    assert decode_connect(old + b"\x00") == (7, 4_000, 5, b"pw", True)


def test_the_answer_to_the_handshake_has_the_last_field_when_the_question_had_it() -> None:
    short = encode_connected(timeout_ms=1, session_id=2, password=b"p", has_read_only=False)
    long = encode_connected(timeout_ms=1, session_id=2, password=b"p", has_read_only=True)
    assert short == struct.pack(">iiiqi", 21, 0, 1, 2, 1) + b"p"
    assert long == struct.pack(">iiiqi", 22, 0, 1, 2, 1) + b"p\x00"


def test_a_reply_and_an_event_are_frames() -> None:
    assert encode_reply(3, b"body", zxid=4, error=-5) == struct.pack(">iiqi", 20, 3, 4, -5) + b"body"
    event = encode_event(WatchEvent(WatchKind.DELETED, "/a"))
    assert event == struct.pack(">iiqi", 30, -1, -1, 0) + struct.pack(">iii", 2, 3, 2) + b"/a"


def test_operations_are_read_from_their_bodies() -> None:
    for opcode, body, operation in (
        (Opcode.CREATE, create_body("/a", b"x", flags=3), Create("/a", b"x", ephemeral=True, sequential=True)),
        (Opcode.CREATE_CONTAINER, create_body("/a", flags=4), Create("/a", container=True)),
        (Opcode.SET_DATA, set_body("/a", None, 5), SetData("/a", None, 5)),
        (Opcode.DELETE, version_body("/a", 5), Delete("/a", 5)),
        (Opcode.CHECK, version_body("/a", 5), Check("/a", 5)),
    ):
        assert read_operation(JuteReader(body), opcode) == operation


@pytest.mark.parametrize("flags", [-1, 4, 5, 6, 7])
def test_a_kind_of_znode_that_cannot_be_created_is_refused(flags: int) -> None:
    with pytest.raises(BadArguments):
        read_operation(JuteReader(create_body("/a", flags=flags)), Opcode.CREATE)


def test_a_multi_ends_with_its_end_and_holds_no_reads() -> None:
    assert read_multi(JuteReader(multi_body((Opcode.DELETE, version_body("/a"))))) == [(Opcode.DELETE, Delete("/a"))]
    with pytest.raises(MarshallingError):
        read_multi(JuteReader(multi_body((Opcode.GET_DATA, b""))))
    with pytest.raises(MarshallingError):
        read_multi(JuteReader(multi_body()[:-1]))


def test_a_result_has_what_its_request_asked_for() -> None:
    assert encode_result(Opcode.DELETE, "", None) == b""
    assert encode_result(Opcode.CREATE, "/a", STAT) == b"\x00\x00\x00\x02/a"
    assert len(encode_result(Opcode.CREATE_2, "/a", STAT)) == 6 + 68
    assert len(encode_result(Opcode.SET_DATA, "/a", STAT)) == 68


def test_names_come_back() -> None:
    assert read_names(JuteReader(encode_names(["a", "ü", ""]))) == ["a", "ü", ""]


@pytest.mark.parametrize("length", [-1, 101, 2**31 - 1, -(2**31)])
def test_a_frame_is_refused_by_its_length(length: int) -> None:
    with pytest.raises(MarshallingError):
        check_length(length, limit=100)
