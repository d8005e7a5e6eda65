import struct

import pytest

from millstream.zookeeper.errors import MarshallingError
from millstream.zookeeper.jute import JuteReader, encode_buffer, encode_string


def test_what_was_written_is_read() -> None:
    content = encode_string("ü") + encode_buffer(b"x") + encode_buffer(None) + struct.pack(">iqb", -5, 2**40, 1)
    reader = JuteReader(content)
    assert reader.read_string() == "ü"
    assert reader.read_buffer() == b"x"
    assert reader.read_buffer() is None
    assert (reader.read_int(), reader.read_long(), reader.read_bool(), reader.remaining) == (-5, 2**40, True, 0)


def test_a_string_that_is_none_reads_as_empty() -> None:
    assert JuteReader(encode_buffer(None)).read_string() == ""


@pytest.mark.parametrize("content", [b"", b"\x00", b"\x00\x00\x00\x05abcd", b"\x7f\xff\xff\xff", b"\x00\x00\x00\x01\xff"])
def test_a_string_that_is_not_there_is_refused(content: bytes) -> None:
    with pytest.raises(MarshallingError):
        JuteReader(content).read_string()


def test_a_vector_larger_than_its_bytes_is_refused_before_it_is_built() -> None:
    with pytest.raises(MarshallingError):
        JuteReader(struct.pack(">i", 2**31 - 1)).read_count(4)


def test_a_vector_that_is_none_is_empty() -> None:
    assert JuteReader(struct.pack(">i", -1)).read_count(4) == 0
