from contextlib import suppress
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from millstream.errors import MalformedFrame, RecordError
from millstream.wire import frames
from millstream.wire.api import ApiKey
from millstream.wire.primitives import ZERO_UUID, NodeEndpoint
from millstream.wire.produce import (
    HIGHEST_VERSION,
    LOWEST_VERSION,
    PartitionProduced,
    TopicProduced,
    decode_request,
    encode_response,
)
from tests.properties.kio_entities import MAX_INSTANT_MS, MILLISECOND, NUMBERS, entities, entity_of, kio_bytes, kio_schema

every_version = pytest.mark.parametrize("version", range(LOWEST_VERSION, HIGHEST_VERSION + 1))
texts, int32, int64 = NUMBERS["string"], NUMBERS["int32"], NUMBERS["int64"]
nullable_texts = st.none() | texts
leaders = st.tuples(int32, int32).filter(lambda leader: leader != (-1, -1))
partitions = st.builds(
    PartitionProduced,
    partition=int32,
    error_code=st.integers(-1, 100),
    base_offset=int64,
    log_append_time_ms=st.integers(-1, MAX_INSTANT_MS),
    log_start_offset=int64,
    record_errors=st.just(()) | st.lists(st.builds(RecordError, int32, nullable_texts), max_size=2),
    error_message=nullable_texts,
    leader=st.none() | leaders,
)
topics = st.builds(TopicProduced, name=texts, topic_id=st.binary(min_size=16, max_size=16), partitions=st.lists(partitions, max_size=3))
endpoints = st.builds(NodeEndpoint, node_id=int32, host=texts, port=int32, rack=nullable_texts)


@every_version
@settings(max_examples=12)
@given(data=st.data())
def test_a_produce_request_is_read_as_kio_wrote_it(version: int, data: st.DataObject) -> None:
    entity = data.draw(entities(kio_schema(ApiKey.PRODUCE, version, "request")))
    prefix = data.draw(st.binary(max_size=3))
    request = decode_request(memoryview(prefix + kio_bytes(entity)), version, start=len(prefix))
    assert request.transactional_id == entity.transactional_id
    assert (request.acks, request.timeout_ms) == (entity.acks, entity.timeout // MILLISECOND)
    assert [_plain_topic(topic) for topic in entity.topic_data] == [
        (name, topic_id, [(index, None if records is None else bytes(records)) for index, records in partitions])
        for name, topic_id, partitions in request.topics
    ]


def _plain_topic(topic: Any) -> tuple[str | None, bytes | None, list[tuple[int, bytes | None]]]:
    partitions = [(partition.index, partition.records) for partition in topic.partition_data]
    if hasattr(topic, "name"):
        return topic.name, None, partitions
    return None, ZERO_UUID if topic.topic_id is None else topic.topic_id.bytes, partitions


@every_version
@settings(max_examples=12)
@given(
    answered=st.lists(topics, max_size=3),
    throttle_time_ms=st.integers(0, 2**31 - 1),
    nodes=st.lists(endpoints, max_size=2),
    correlation_id=int32,
)
def test_a_produce_response_is_written_as_kio_writes_it(
    version: int, answered: list[TopicProduced], throttle_time_ms: int, nodes: list[NodeEndpoint], correlation_id: int
) -> None:
    reply = {
        "responses": [_plain_answer(topic) for topic in answered],
        "throttle_time_ms": throttle_time_ms,
        "node_endpoints": [node._asdict() for node in nodes],
    }
    expected = kio_bytes(entity_of(kio_schema(ApiKey.PRODUCE, version, "response"), reply))
    framed = frames.frame_response(ApiKey.PRODUCE, version, correlation_id=correlation_id, body=expected)
    assert encode_response(version, correlation_id, topics=answered, throttle_time_ms=throttle_time_ms, node_endpoints=nodes) == framed


def _plain_answer(topic: TopicProduced) -> dict[str, Any]:
    answers = [
        {
            "index": partition.partition,
            "error_code": partition.error_code,
            "base_offset": partition.base_offset,
            "log_append_time_ms": partition.log_append_time_ms,
            "log_start_offset": partition.log_start_offset,
            "record_errors": [
                {"batch_index": error.batch_index, "batch_index_error_message": error.message} for error in partition.record_errors
            ],
            "error_message": partition.error_message,
        }
        | ({} if partition.leader is None else {"current_leader": dict(zip(("leader_id", "leader_epoch"), partition.leader, strict=True))})
        for partition in topic.partitions
    ]
    return {"name": topic.name, "topic_id": topic.topic_id, "partition_responses": answers}


@every_version
@settings(max_examples=20)
@given(data=st.data())
def test_a_damaged_produce_request_is_read_or_malformed(version: int, data: st.DataObject) -> None:
    body = bytearray(kio_bytes(data.draw(entities(kio_schema(ApiKey.PRODUCE, version, "request")))))
    body[data.draw(st.integers(0, len(body) - 1))] = data.draw(st.integers(0, 255))
    body = body[: data.draw(st.integers(0, len(body)))] + data.draw(st.binary(max_size=10))
    with suppress(MalformedFrame):
        decode_request(memoryview(body), version)


@every_version
@settings(max_examples=20)
@given(data=st.data())
def test_a_produce_request_that_was_cut_off_is_malformed(version: int, data: st.DataObject) -> None:
    body = kio_bytes(data.draw(entities(kio_schema(ApiKey.PRODUCE, version, "request"))))
    with pytest.raises(MalformedFrame):
        decode_request(memoryview(body)[: data.draw(st.integers(0, len(body) - 1))], version)
