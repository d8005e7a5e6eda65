from typing import NamedTuple

import pytest

from millstream.errors import MalformedFrame
from millstream.wire.api import ApiKey
from millstream.wire.fetch import MAX_PARTITIONS, FetchRequest, PartitionFetched, TopicFetched, decode_request, encode_response
from millstream.wire.frames import read_request_header
from millstream.wire.primitives import tagged_fields, unsigned_varint
from tests.framed_requests import framed_request


class Region(NamedTuple):
    """A piece of a file, of which only the length matters."""

    name: str
    length: int


def decode(version: int, request: dict[str, object]) -> FetchRequest:
    full = {"max_wait_ms": 500, "min_bytes": 1, "topics": [], "forgotten_topics_data": []} | request
    frame = memoryview(framed_request(ApiKey.FETCH, version, correlation_id=1, request=full))[4:]
    return decode_request(frame, version, start=read_request_header(frame).body_start)


@pytest.mark.parametrize("version", [7, 11, 12, 13, 18])
def test_an_incremental_fetch_that_changes_nothing_names_no_topics(version: int) -> None:
    request = decode(version, {"session_id": 77, "session_epoch": 3})
    assert (request.session_id, request.session_epoch, request.topics, request.forgotten_topics) == (77, 3, [], [])


@pytest.mark.parametrize(("version", "replica_epoch"), [(4, -1), (14, -1), (15, 9), (18, 9)])
def test_a_follower_is_known_by_its_replica_id_wherever_the_version_keeps_it(version: int, replica_epoch: int) -> None:
    request = decode(version, {"replica_id": 2, "replica_state": {"replica_id": 2, "replica_epoch": 9}})
    assert (request.replica_id, request.replica_epoch) == (2, replica_epoch)


def test_partitions_with_tags_are_read_like_those_without() -> None:
    plain = {"partition": 1, "fetch_offset": 5, "partition_max_bytes": 100}
    topics = [{"topic_id": bytes(range(16)), "partitions": [plain, plain | {"high_watermark": 4}, plain | {"partition": 2}]}]
    partitions = decode(18, {"topics": topics}).topics[0].partitions
    assert [(each.partition, each.fetch_offset, each.high_watermark) for each in partitions] == [
        (1, 5, 2**63 - 1),
        (1, 5, 4),
        (2, 5, 2**63 - 1),
    ]


def test_unknown_tagged_fields_are_skipped_at_every_level() -> None:
    tags = tagged_fields([(90, b"x"), (1000, b"yz")])
    limits = bytes(4 * 4) + b"\x00" + bytes(8)
    partition = bytes(32) + tags
    topic = b"\x02t\x02" + partition + tags
    body = limits + b"\x02" + topic + b"\x02\x02t\x01" + tags + b"\x01" + tags
    request = decode_request(memoryview(body), 12)
    assert len(request.topics[0].partitions) == 1
    assert request.forgotten_topics == [("t", None, [])]


def test_more_partitions_than_the_limit_are_refused_before_they_are_read() -> None:
    count = MAX_PARTITIONS + 1
    body = bytes(4 * 4 + 1 + 8) + b"\x02\x02t" + unsigned_varint(count + 1) + bytes(33 * count)
    with pytest.raises(MalformedFrame, match="more than 100000 partitions"):
        decode_request(memoryview(body), 12)


@pytest.mark.parametrize("version", [4, 7, 9, 12, 18])
def test_a_count_without_the_bytes_for_it_is_malformed(version: int) -> None:
    head = bytes((0 if version >= 15 else 4) + 13 + (8 if version >= 7 else 0))
    for count in (b"\xff\xff\xff\xff\x0f", b"\x7f\xff\xff\xff", b"\xff\xff\xff\xfe"):
        with pytest.raises(MalformedFrame):
            decode_request(memoryview(head + count), version)


def test_the_regions_stand_between_the_bytes_of_the_answer() -> None:
    first, second = Region("first", 1000), Region("second", 5)
    partitions = [PartitionFetched(0, records=first), PartitionFetched(1, records=second), PartitionFetched(2)]
    chunks = encode_response(12, 7, topics=[TopicFetched("t", None, partitions)])
    assert [type(chunk) for chunk in chunks] == [bytes, Region, bytes, Region, bytes]
    assert (chunks[1], chunks[3]) == (first, second)
    assert isinstance(chunks[0], bytes)
    total = sum(chunk.length if isinstance(chunk, Region) else len(chunk) for chunk in chunks)
    assert int.from_bytes(chunks[0][:4], "big") == total - 4


def test_an_answer_that_ends_in_a_region_has_no_empty_bytes_after_it() -> None:
    chunks = encode_response(11, 7, topics=[TopicFetched("t", None, [PartitionFetched(0, records=Region("all", 10))])])
    assert [type(chunk) for chunk in chunks] == [bytes, Region]


@pytest.mark.parametrize("records", [None, Region("nothing", 0)])
def test_no_records_are_written_as_empty_and_not_as_null(records: Region | None) -> None:
    (answer,) = encode_response(11, 7, topics=[TopicFetched("t", None, [PartitionFetched(0, records=records)])])
    assert isinstance(answer, bytes)
    assert answer.endswith(b"\x00\x00\x00\x00")


def test_an_answer_without_topics_is_one_piece() -> None:
    assert encode_response(12, 7, topics=list[TopicFetched[Region]](), session_id=5) == [
        b"\x00\x00\x00\x11\x00\x00\x00\x07\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x05\x01\x00"
    ]
