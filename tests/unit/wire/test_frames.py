import pytest

from millstream.errors import MalformedFrame
from millstream.wire.api import ApiKey
from millstream.wire.frames import (
    MAX_FRAME_BYTES,
    RequestHeader,
    encode_request_header,
    frame_response,
    read_request_header,
    read_response_header,
    read_size,
)
from millstream.wire.primitives import tagged_fields


def test_the_size_of_a_frame_is_read_where_it_stands() -> None:
    assert read_size(b"??\x00\x00\x01\x00", 2) == 256


def test_a_size_at_the_limit_is_fine_and_one_above_is_not() -> None:
    assert read_size((1000).to_bytes(4, "big"), limit=1000) == 1000
    with pytest.raises(MalformedFrame, match=r"1001 bytes is above the limit of 1000 \(socket.request.max.bytes\)"):
        read_size((1001).to_bytes(4, "big"), limit=1000)


@pytest.mark.parametrize("size", [-1, -(2**31), 0, 3])
def test_a_size_that_no_frame_can_have_is_malformed(size: int) -> None:
    with pytest.raises(MalformedFrame, match=f"a frame cannot have a size of {size} bytes"):
        read_size(size.to_bytes(4, "big", signed=True))


@pytest.mark.parametrize("hello", [b"\x16\x03\x01\x02", b"\x16\x03\x03\x00"])
def test_a_tls_handshake_is_called_by_its_name(hello: bytes) -> None:
    with pytest.raises(MalformedFrame, match="TLS handshake on a port without TLS"):
        read_size(hello, limit=MAX_FRAME_BYTES)


@pytest.mark.parametrize("start", [b"GET ", b"POST", b"HEAD"])
def test_an_http_request_is_called_by_its_name(start: bytes) -> None:
    with pytest.raises(MalformedFrame, match="HTTP request"):
        read_size(start)


def test_a_request_header_is_read_in_its_old_form() -> None:
    frame = b"\x00\x03\x00\x01\x00\x00\x00\x07\x00\x03abcBODY"
    assert read_request_header(frame) == RequestHeader(3, 1, 7, "abc", 13)
    assert read_request_header(memoryview(bytearray(frame))) == RequestHeader(3, 1, 7, "abc", 13)


def test_a_client_id_may_be_null_or_empty() -> None:
    assert read_request_header(b"\x00\x03\x00\x01\x00\x00\x00\x07\xff\xff").client_id is None
    assert read_request_header(b"\x00\x03\x00\x01\x00\x00\x00\x07\x00\x00").client_id == ""


def test_the_tagged_fields_of_a_flexible_header_are_skipped() -> None:
    tags = tagged_fields([(7, b"unknown")])
    frame = b"\x00\x03\x00\x0c\x00\x00\x00\x07\x00\x01x" + tags + b"BODY"
    assert frame[read_request_header(frame).body_start :] == b"BODY"


def test_a_version_too_new_for_us_still_has_a_header_that_can_be_read() -> None:
    header = read_request_header(b"\x00\x12\x00\x63\x00\x00\x00\x07\x00\x01x\x00BODY")
    assert header == RequestHeader(ApiKey.API_VERSIONS, 99, 7, "x", 12)


@pytest.mark.parametrize(
    "frame",
    [
        b"",
        b"\x00\x03\x00\x01\x00\x00\x00\x07\x00",
        b"\x00\x03\x00\x01\x00\x00\x00\x07\x00\x05abc",
        b"\x00\x03\x00\x01\x00\x00\x00\x07\xff\xfe",
        b"\x00\x03\x00\x01\x00\x00\x00\x07\x00\x01\xff",
        b"\x00\x03\x00\x0c\x00\x00\x00\x07\x00\x01x",
        b"\x00\x03\x00\x0c\x00\x00\x00\x07\x00\x01x\xff\xff\xff\xff\x0f",
    ],
    ids=["empty", "short", "client id too long", "negative length", "not UTF-8", "no tags", "too many tags"],
)
def test_a_broken_header_is_malformed(frame: bytes) -> None:
    with pytest.raises(MalformedFrame):
        read_request_header(frame)


def test_the_answer_has_a_tag_byte_only_where_its_version_is_flexible() -> None:
    assert frame_response(ApiKey.METADATA, 8, correlation_id=5, body=b"B") == b"\x00\x00\x00\x05\x00\x00\x00\x05B"
    assert frame_response(ApiKey.METADATA, 9, correlation_id=5, body=b"B") == b"\x00\x00\x00\x06\x00\x00\x00\x05\x00B"
    assert frame_response(ApiKey.API_VERSIONS, 4, correlation_id=5, body=b"B") == b"\x00\x00\x00\x05\x00\x00\x00\x05B"


@pytest.mark.parametrize("version", [8, 9])
def test_requests_and_answers_survive_the_journey(version: int) -> None:
    request = encode_request_header(ApiKey.METADATA, version, correlation_id=5, client_id="me") + b"BODY"
    header = read_request_header(request)
    assert (header.correlation_id, request[header.body_start :]) == (5, b"BODY")
    answer = frame_response(ApiKey.METADATA, version, correlation_id=5, body=b"BODY")[4:]
    correlation_id, start = read_response_header(answer, api_key=ApiKey.METADATA, version=version)
    assert (correlation_id, answer[start:]) == (5, b"BODY")


def test_an_answer_shorter_than_its_header_is_malformed() -> None:
    with pytest.raises(MalformedFrame):
        read_response_header(b"\x00\x00", api_key=ApiKey.METADATA, version=8)
