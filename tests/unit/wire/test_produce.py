import pytest

from millstream.errors import MalformedFrame
from millstream.wire.api import ApiKey
from millstream.wire.frames import read_request_header
from millstream.wire.primitives import tagged_fields, unsigned_varint
from millstream.wire.produce import MAX_PARTITIONS, PartitionProduced, TopicProduced, decode_request, encode_response
from tests.framed_requests import framed_request


def produce_frame(version: int, records: bytes | None = b"R" * 200) -> bytes:
    topic = {"name": "events", "topic_id": bytes(range(16)), "partition_data": [{"index": 3, "records": records}]}
    request = {"acks": -1, "timeout_ms": 30_000, "topic_data": [topic]}
    return framed_request(ApiKey.PRODUCE, version, correlation_id=1, client_id="me", request=request)[4:]


@pytest.mark.parametrize("version", [3, 8, 9, 12])
def test_a_topic_is_known_by_name_before_version_13(version: int) -> None:
    frame = memoryview(produce_frame(version))
    request = decode_request(frame, version, start=read_request_header(frame).body_start)
    assert request == (None, -1, 30_000, [("events", None, [(3, memoryview(b"R" * 200))])])


def test_a_topic_is_known_by_id_from_version_13() -> None:
    frame = memoryview(produce_frame(13))
    request = decode_request(frame, 13, start=read_request_header(frame).body_start)
    assert request.topics == [(None, bytes(range(16)), [(3, memoryview(b"R" * 200))])]


def test_records_are_views_into_the_request_and_not_copies() -> None:
    frame = bytearray(produce_frame(9))
    request = decode_request(memoryview(frame), 9, start=read_request_header(frame).body_start)
    records = request.topics[0].partitions[0][1]
    assert records is not None
    assert records.obj is frame


@pytest.mark.parametrize("version", [3, 9])
def test_null_records_are_none(version: int) -> None:
    frame = memoryview(produce_frame(version, records=None))
    assert decode_request(frame, version, start=read_request_header(frame).body_start).topics[0].partitions == [(3, None)]


def test_unknown_tagged_fields_are_skipped_at_every_level() -> None:
    tags = tagged_fields([(9, b"x"), (1000, b"yz")])
    body = b"\x00\xff\xff\x00\x00\x00\x01\x02\x02t\x02\x00\x00\x00\x05\x03RR" + tags + tags + tags
    assert decode_request(memoryview(body), 9).topics == [("t", None, [(5, memoryview(b"RR"))])]


def test_records_longer_than_the_request_are_malformed() -> None:
    legacy = b"\xff\xff\xff\xff\x00\x00\x00\x01\x00\x00\x00\x01\x00\x01t\x00\x00\x00\x01\x00\x00\x00\x05"
    for size in (b"\x7f\xff\xff\xff", b"\x00\x00\x00\x03", b"\xff\xff\xff\xfe"):
        with pytest.raises(MalformedFrame):
            decode_request(memoryview(legacy + size + b"RR"), 3)
    flexible = b"\x00\xff\xff\x00\x00\x00\x01\x02\x02t\x02\x00\x00\x00\x05"
    for size in (b"\xff\xff\xff\xff\x0f", b"\x04"):
        with pytest.raises(MalformedFrame):
            decode_request(memoryview(flexible + size + b"RR"), 9)


def test_a_topic_name_that_is_not_text_is_malformed() -> None:
    with pytest.raises(MalformedFrame, match="UTF-8"):
        decode_request(memoryview(b"\x00\xff\xff\x00\x00\x00\x01\x02\x02\xff\x01\x00\x00"), 9)


def test_more_partitions_than_the_limit_are_refused_before_they_are_read() -> None:
    count = MAX_PARTITIONS + 1
    body = b"\x00\xff\xff\x00\x00\x00\x01\x02\x02t" + unsigned_varint(count + 1) + bytes(6 * count)
    with pytest.raises(MalformedFrame, match="more than 100000 partitions"):
        decode_request(memoryview(body), 9)


def test_the_smallest_answer_is_a_few_bytes() -> None:
    answer = encode_response(9, 7, topics=[TopicProduced("t", None, [PartitionProduced(0, base_offset=5, log_start_offset=0)])])
    assert answer == (
        b"\x00\x00\x00\x30\x00\x00\x00\x07\x00"
        b"\x02\x02t\x02\x00\x00\x00\x00\x00\x00"
        b"\x00\x00\x00\x00\x00\x00\x00\x05\xff\xff\xff\xff\xff\xff\xff\xff\x00\x00\x00\x00\x00\x00\x00\x00"
        b"\x01\x00\x00"
        b"\x00"
        b"\x00\x00\x00\x00\x00"
    )
