from uuid import UUID

import pytest

from millstream.errors import MalformedFrame
from millstream.wire import messages
from millstream.wire.api import ApiKey
from millstream.wire.frames import encode_request_header, read_request_header, read_response_header

TOPIC_ID = UUID(int=7)
METADATA = {
    "throttle_time_ms": 250,
    "brokers": [{"node_id": 1, "host": "localhost", "port": 9092}],
    "cluster_id": "a-cluster",
    "controller_id": 1,
    "topics": [{"error_code": 3, "name": "events", "topic_id": TOPIC_ID, "is_internal": False, "partitions": []}],
}


def metadata(version: int, reply: dict[str, object] = METADATA) -> object:
    answer = messages.encode_response(ApiKey.METADATA, version, correlation_id=9, reply=reply)
    assert int.from_bytes(answer[:4], "big") == len(answer) - 4
    correlation_id, start = read_response_header(answer[4:], api_key=ApiKey.METADATA, version=version)
    assert correlation_id == 9
    return messages.decode_response(ApiKey.METADATA, version, body=answer[4:], start=start)


@pytest.mark.parametrize("version", range(14))
def test_one_reply_serves_every_version(version: int) -> None:
    reply = metadata(version)
    (topic,) = reply.topics  # type: ignore[attr-defined]
    assert (topic.name, topic.error_code) == ("events", 3)
    assert topic.topic_id == (TOPIC_ID if version >= 10 else None)
    assert reply.throttle_time_ms == (250 if version >= 3 else 0)  # type: ignore[attr-defined]


def test_an_error_code_and_a_throttle_time_that_are_not_given_are_zero() -> None:
    topics: list[dict[str, object]] = [{"name": "events", "topic_id": None, "is_internal": False, "partitions": []}]
    reply = metadata(12, {"brokers": [], "topics": topics})
    assert reply.throttle_time_ms == 0  # type: ignore[attr-defined]
    assert reply.topics[0].error_code == 0  # type: ignore[attr-defined]


def test_a_missing_field_without_default_is_named() -> None:
    with pytest.raises(ValueError, match="MetadataResponse version 12: brokers: is required"):
        metadata(12, {"topics": []})
    with pytest.raises(ValueError, match=r"topics: MetadataResponseTopic version 12: partitions: is required"):
        metadata(12, {"brokers": [], "topics": [{"name": "t", "topic_id": None, "is_internal": False}]})


def test_a_value_of_the_wrong_type_is_named() -> None:
    with pytest.raises(ValueError, match="MetadataResponse version 12: controller_id"):
        metadata(12, METADATA | {"controller_id": "one"})


def test_a_null_where_the_version_has_none_is_named() -> None:
    with pytest.raises(ValueError, match="brokers: must not be null"):
        metadata(12, METADATA | {"brokers": None})


def test_a_request_is_read_from_where_its_header_ends() -> None:
    header = encode_request_header(ApiKey.CREATE_TOPICS, 7, correlation_id=1, client_id="me")
    request = {"timeout_ms": 1500, "topics": [], "validate_only": True}
    frame = header + messages.encode_request_body(ApiKey.CREATE_TOPICS, 7, request=request)
    decoded = messages.decode_request(ApiKey.CREATE_TOPICS, 7, body=frame, start=read_request_header(frame).body_start)
    assert decoded.validate_only is True
    assert decoded.timeout_ms == 1500


@pytest.mark.parametrize("body", [b"\xff\xff\xff\xff\x0f", b"\xff\xff\xff\xff\x7f", b"\x80\x80\x80\x80\x02"])
def test_five_bytes_that_announce_a_huge_array_are_refused(body: bytes) -> None:
    with pytest.raises(MalformedFrame):
        messages.decode_request(ApiKey.METADATA, 12, body=body)


def test_a_request_that_is_too_big_is_refused_before_it_is_read() -> None:
    with pytest.raises(MalformedFrame, match="above the limit"):
        messages.decode_request(ApiKey.METADATA, 12, body=bytes(messages.MAX_REQUEST_BYTES + 1))


def test_more_elements_than_one_request_may_have_are_refused() -> None:
    count = messages.MAX_REQUEST_ELEMENTS + 1
    with pytest.raises(MalformedFrame, match="more array elements"):
        messages.decode_request(ApiKey.METADATA, 0, body=count.to_bytes(4, "big") + bytes(2 * count))


def test_an_error_code_newer_than_kio_stays_a_number() -> None:
    reply = {"error_code": 32_000, "api_keys": []}
    answer = messages.encode_response(ApiKey.API_VERSIONS, 0, correlation_id=1, reply=reply)
    assert messages.decode_response(ApiKey.API_VERSIONS, 0, body=answer[8:]).error_code == 32_000


def test_a_duration_may_be_longer_than_python_knows() -> None:
    body = b"\x00\x01g\x00\x00\x00\x01\x00\x00" + (2**63 - 1).to_bytes(8, "big") + bytes(4)
    assert messages.decode_request(ApiKey.OFFSET_COMMIT, 2, body=body).retention_time_ms == 2**63 - 1


def test_a_version_that_does_not_exist_is_malformed() -> None:
    with pytest.raises(MalformedFrame, match="there is no version 99 of METADATA"):
        messages.decode_request(ApiKey.METADATA, 99, body=b"")
    with pytest.raises(MalformedFrame, match="there is no version 0 of API key 999"):
        messages.decode_request(999, 0, body=b"")


def test_an_id_may_be_given_as_bytes() -> None:
    topic = {"name": "t", "topic_id": TOPIC_ID.bytes, "is_internal": False, "partitions": []}
    assert metadata(12, METADATA | {"topics": [topic]}).topics[0].topic_id == TOPIC_ID  # type: ignore[attr-defined]
    with pytest.raises(ValueError, match="an id has 16 bytes, not 3"):
        metadata(12, METADATA | {"topics": [topic | {"topic_id": b"abc"}]})
