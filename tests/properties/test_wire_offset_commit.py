from contextlib import suppress
from typing import Any
from uuid import UUID

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from millstream.errors import MalformedFrame
from millstream.wire import messages
from millstream.wire.api import ApiKey
from millstream.wire.offset_commit import HIGHEST_VERSION, LOWEST_VERSION, decode_request, encode_response
from tests.properties.kio_entities import MILLISECOND, NUMBERS, entities, kio_bytes, kio_schema

every_version = pytest.mark.parametrize("version", range(LOWEST_VERSION, HIGHEST_VERSION + 1))
answers = st.lists(
    st.fixed_dictionaries(
        {
            "name": NUMBERS["string"],
            "topic_id": st.none() | st.uuids(),
            "partitions": st.lists(
                st.fixed_dictionaries({"partition_index": NUMBERS["int32"], "error_code": st.integers(-1, 100)}), max_size=3
            ),
        }
    ),
    max_size=3,
)


@every_version
@settings(max_examples=12)
@given(data=st.data())
def test_a_commit_is_read_as_kio_wrote_it(version: int, data: st.DataObject) -> None:
    entity = data.draw(entities(kio_schema(ApiKey.OFFSET_COMMIT, version, "request")))
    prefix = data.draw(st.binary(max_size=3))
    request = decode_request(memoryview(prefix + kio_bytes(entity)), version, start=len(prefix))
    assert (request.group_id, request.member_id) == (entity.group_id, entity.member_id)
    assert request.generation_or_member_epoch == entity.generation_id_or_member_epoch
    assert request.instance_id == getattr(entity, "group_instance_id", None)
    assert request.retention_ms == (entity.retention_time // MILLISECOND if version <= 4 else -1)
    assert [tuple(topic) for topic in request.topics] == [_plain_topic(topic) for topic in entity.topics]


def _plain_topic(topic: Any) -> tuple[str | None, UUID | None, list[tuple[int, int, int, str | None]]]:
    partitions = [
        (one.partition_index, one.committed_offset, getattr(one, "committed_leader_epoch", -1), one.committed_metadata)
        for one in topic.partitions
    ]
    return getattr(topic, "name", None), getattr(topic, "topic_id", None), partitions


@every_version
@settings(max_examples=12)
@given(topics=answers, correlation_id=NUMBERS["int32"])
def test_the_answer_to_a_commit_is_written_like_every_other(version: int, topics: list[dict[str, Any]], correlation_id: int) -> None:
    written = encode_response(version, correlation_id, topics=topics)
    assert written == messages.encode_response(
        ApiKey.OFFSET_COMMIT, version, correlation_id=correlation_id, reply={"throttle_time_ms": 0, "topics": topics}
    )


@every_version
@settings(max_examples=30)
@given(data=st.data())
def test_only_malformed_frame_escapes_from_bytes_of_the_outside(version: int, data: st.DataObject) -> None:
    entity = data.draw(entities(kio_schema(ApiKey.OFFSET_COMMIT, version, "request")))
    content = bytearray(kio_bytes(entity))
    for position in data.draw(st.lists(st.integers(0, max(len(content) - 1, 0)), max_size=4)):
        if content:
            content[position] = data.draw(st.integers(0, 255))
    with suppress(MalformedFrame):
        decode_request(memoryview(content)[: data.draw(st.integers(0, len(content)))], version)
