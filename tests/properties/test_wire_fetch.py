from contextlib import suppress
from typing import Any, NamedTuple

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from millstream.errors import MalformedFrame
from millstream.wire import frames
from millstream.wire.api import ApiKey
from millstream.wire.fetch import (
    CONSUMER,
    HIGHEST_VERSION,
    LOWEST_VERSION,
    UNKNOWN_HIGH_WATERMARK,
    FetchPartition,
    FetchTopic,
    PartitionFetched,
    TopicFetched,
    decode_request,
    encode_response,
)
from millstream.wire.fetch_shape import FetchShape
from millstream.wire.primitives import ZERO_UUID, NodeEndpoint
from tests.properties.kio_entities import MILLISECOND, NUMBERS, entities, entity_of, kio_bytes, kio_schema


class Content(NamedTuple):
    """Stands for a file region: here the bytes are known."""

    content: bytes

    @property
    def length(self) -> int:
        return len(self.content)


every_version = pytest.mark.parametrize("version", range(LOWEST_VERSION, HIGHEST_VERSION + 1))
texts, int32, int64 = NUMBERS["string"], NUMBERS["int32"], NUMBERS["int64"]
partitions = st.builds(
    PartitionFetched[Content],
    partition=int32,
    error_code=st.integers(-1, 100),
    high_watermark=int64,
    last_stable_offset=int64,
    log_start_offset=int64,
    records=st.none() | st.builds(Content, NUMBERS["records"]),
    aborted_transactions=st.none() | st.lists(st.tuples(int64, int64), max_size=2),
    preferred_read_replica=int32,
    diverging_epoch=st.none() | st.tuples(int32, int64).filter(lambda epoch: epoch != (-1, -1)),
    leader=st.none() | st.tuples(int32, int32).filter(lambda leader: leader != (-1, -1)),
)
topics = st.builds(
    TopicFetched[Content], name=texts, topic_id=st.binary(min_size=16, max_size=16), partitions=st.lists(partitions, max_size=3)
)
endpoints = st.builds(NodeEndpoint, node_id=int32, host=texts, port=int32, rack=st.none() | texts)


@every_version
@settings(max_examples=12)
@given(data=st.data())
def test_a_fetch_request_is_read_as_kio_wrote_it(version: int, data: st.DataObject) -> None:
    entity = data.draw(entities(kio_schema(ApiKey.FETCH, version, "request")))
    prefix = data.draw(st.binary(max_size=3))
    request = decode_request(memoryview(prefix + kio_bytes(entity)), version, start=len(prefix))
    state = getattr(entity, "replica_state", None)
    assert request.replica_id == (state.replica_id if state is not None else getattr(entity, "replica_id", CONSUMER))
    assert request.replica_epoch == (state.replica_epoch if state is not None else -1)
    assert request.max_wait_ms == entity.max_wait // MILLISECOND
    assert (request.min_bytes, request.max_bytes, request.isolation_level) == (entity.min_bytes, entity.max_bytes, entity.isolation_level)
    assert (request.session_id, request.session_epoch) == (getattr(entity, "session_id", 0), getattr(entity, "session_epoch", -1))
    assert request.rack_id == (entity.rack_id if version >= 11 else None)
    assert request.cluster_id == getattr(entity, "cluster_id", None)
    assert request.topics == [FetchTopic(*_key(topic), [_plain_partition(each) for each in topic.partitions]) for topic in entity.topics]
    forgotten = getattr(entity, "forgotten_topics_data", ())
    assert request.forgotten_topics == [(*_key(topic), list(topic.partitions)) for topic in forgotten]


@every_version
@settings(max_examples=12)
@given(data=st.data())
def test_a_shape_finds_what_is_decoded_and_nothing_else_that_differs(version: int, data: st.DataObject) -> None:
    entity = data.draw(entities(kio_schema(ApiKey.FETCH, version, "request")))
    header = frames.encode_request_header(ApiKey.FETCH, version, correlation_id=7, client_id=data.draw(texts))
    frame = bytearray(header + kio_bytes(entity))
    request = decode_request(memoryview(frame), version, start=len(header))
    shape = FetchShape.of(memoryview(frame), version, request, body_start=len(header))
    if version < 7 or [len(topic.partitions) for topic in request.topics] != [1]:
        assert shape is None
        return
    assert shape is not None
    numbers = (7, request.session_epoch, request.topics[0].partitions[0].fetch_offset)
    assert shape.match(memoryview(frame)) == numbers
    assert shape.match(memoryview(frame + b"x")) is None
    place = data.draw(st.integers(0, len(frame) - 1))
    frame[place] ^= 1
    found = shape.match(memoryview(frame))
    assert found != numbers
    if found is not None:
        with suppress(MalformedFrame):
            changed = decode_request(memoryview(frame), version, start=len(header))
            assert found[1:] == (changed.session_epoch, changed.topics[0].partitions[0].fetch_offset)
            assert changed._replace(session_epoch=0, topics=[]) == request._replace(session_epoch=0, topics=[])


def _key(topic: Any) -> tuple[str | None, bytes | None]:
    if hasattr(topic, "topic"):
        return topic.topic, None
    return None, ZERO_UUID if topic.topic_id is None else topic.topic_id.bytes


def _plain_partition(partition: Any) -> FetchPartition:
    directory = getattr(partition, "replica_directory_id", None)
    return FetchPartition(
        partition=partition.partition,
        current_leader_epoch=getattr(partition, "current_leader_epoch", -1),
        fetch_offset=partition.fetch_offset,
        last_fetched_epoch=getattr(partition, "last_fetched_epoch", -1),
        log_start_offset=getattr(partition, "log_start_offset", -1),
        max_bytes=partition.partition_max_bytes,
        replica_directory_id=None if directory is None else directory.bytes,
        high_watermark=getattr(partition, "high_watermark", UNKNOWN_HIGH_WATERMARK),
    )


@every_version
@settings(max_examples=12)
@given(
    answered=st.lists(topics, max_size=3),
    numbers=st.tuples(st.integers(0, 2**31 - 1), st.integers(-1, 100), int32),
    nodes=st.lists(endpoints, max_size=2),
    correlation_id=int32,
)
def test_a_fetch_response_with_its_regions_is_what_kio_writes(
    version: int, answered: list[TopicFetched[Content]], numbers: tuple[int, int, int], nodes: list[NodeEndpoint], correlation_id: int
) -> None:
    throttle_time_ms, error_code, session_id = numbers
    reply = {
        "throttle_time_ms": throttle_time_ms,
        "error_code": error_code,
        "session_id": session_id,
        "responses": [_plain_answer(topic) for topic in answered],
        "node_endpoints": [node._asdict() for node in nodes],
    }
    expected = kio_bytes(entity_of(kio_schema(ApiKey.FETCH, version, "response"), reply))
    chunks = encode_response(
        version,
        correlation_id,
        topics=answered,
        error_code=error_code,
        session_id=session_id,
        throttle_time_ms=throttle_time_ms,
        node_endpoints=nodes,
    )
    sent = b"".join(chunk.content if isinstance(chunk, Content) else chunk for chunk in chunks)
    assert sent == frames.frame_response(ApiKey.FETCH, version, correlation_id=correlation_id, body=expected)
    assert all(chunk if isinstance(chunk, bytes) else chunk.length for chunk in chunks)


def _plain_answer(topic: TopicFetched[Content]) -> dict[str, Any]:
    return {"topic": topic.name, "topic_id": topic.topic_id, "partitions": [_plain_data(partition) for partition in topic.partitions]}


def _plain_data(partition: PartitionFetched[Content]) -> dict[str, Any]:
    aborted = partition.aborted_transactions
    plain: dict[str, Any] = {
        "partition_index": partition.partition,
        "error_code": partition.error_code,
        "high_watermark": partition.high_watermark,
        "last_stable_offset": partition.last_stable_offset,
        "log_start_offset": partition.log_start_offset,
        "aborted_transactions": None if aborted is None else [{"producer_id": first, "first_offset": second} for first, second in aborted],
        "preferred_read_replica": partition.preferred_read_replica,
        "records": b"" if partition.records is None else partition.records.content,
    }
    if partition.diverging_epoch is not None:
        plain["diverging_epoch"] = dict(zip(("epoch", "end_offset"), partition.diverging_epoch, strict=True))
    if partition.leader is not None:
        plain["current_leader"] = dict(zip(("leader_id", "leader_epoch"), partition.leader, strict=True))
    return plain


@every_version
@settings(max_examples=20)
@given(data=st.data())
def test_a_damaged_fetch_request_is_read_or_malformed(version: int, data: st.DataObject) -> None:
    body = bytearray(kio_bytes(data.draw(entities(kio_schema(ApiKey.FETCH, version, "request")))))
    body[data.draw(st.integers(0, len(body) - 1))] = data.draw(st.integers(0, 255))
    body = body[: data.draw(st.integers(0, len(body)))] + data.draw(st.binary(max_size=10))
    with suppress(MalformedFrame):
        decode_request(memoryview(body), version)


@every_version
@settings(max_examples=20)
@given(data=st.data())
def test_a_fetch_request_that_was_cut_off_is_malformed(version: int, data: st.DataObject) -> None:
    body = kio_bytes(data.draw(entities(kio_schema(ApiKey.FETCH, version, "request"))))
    with pytest.raises(MalformedFrame):
        decode_request(memoryview(body)[: data.draw(st.integers(0, len(body) - 1))], version)
