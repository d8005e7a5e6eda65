from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from millstream.errors import MalformedFrame
from millstream.wire.mirror_append import (
    MirrorAppendRequest,
    MirrorPartition,
    MirrorTopic,
    PartitionMirrored,
    TopicMirrored,
    decode_request,
    decode_response,
    encode_request,
    encode_response,
)

INT32 = st.integers(-(2**31), 2**31 - 1)
INT64 = st.integers(-(2**63), 2**63 - 1)
TOPIC_ID = st.binary(min_size=16, max_size=16)
PARTITIONS = st.builds(MirrorPartition, INT32, INT64, st.binary(max_size=50).map(memoryview))
TOPICS = st.builds(MirrorTopic, TOPIC_ID, st.text(max_size=20), st.lists(PARTITIONS, max_size=3))
REQUESTS = st.builds(MirrorAppendRequest, INT32, st.booleans(), st.lists(TOPICS, max_size=3))
ANSWERED = st.builds(PartitionMirrored, INT32, st.integers(-1, 100), INT64, INT64, INT64, st.none() | st.text(max_size=20))
ANSWERS = st.lists(st.builds(TopicMirrored, TOPIC_ID, st.lists(ANSWERED, max_size=3)), max_size=3)


def body_of(request: MirrorAppendRequest) -> memoryview:
    return memoryview(b"".join(encode_request(request)))


@given(REQUESTS)
def test_what_a_mirror_writes_the_broker_reads(request: MirrorAppendRequest) -> None:
    assert decode_request(memoryview(b"head" + body_of(request)), start=4) == request


@given(ANSWERS)
def test_what_the_broker_writes_a_mirror_reads(topics: list[TopicMirrored]) -> None:
    assert decode_response(memoryview(encode_response(9, topics))[8:]) == topics


@given(REQUESTS, ANSWERS, st.data())
def test_a_message_that_is_cut_off_is_malformed(request: MirrorAppendRequest, topics: list[TopicMirrored], data: st.DataObject) -> None:
    for body, decode in ((body_of(request), decode_request), (memoryview(encode_response(9, topics))[8:], decode_response)):
        cut = data.draw(st.integers(0, len(body) - 1))
        with pytest.raises(MalformedFrame):
            decode(body[:cut])


@given(st.binary(max_size=100))
def test_any_bytes_are_a_message_or_malformed(noise: bytes) -> None:
    for decode in (decode_request, decode_response):
        with suppress(MalformedFrame):
            decode(memoryview(noise))
