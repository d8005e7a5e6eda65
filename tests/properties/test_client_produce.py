from contextlib import suppress
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from millstream.client.codecs.produce import BatchFor, ProduceAnswer, ProducedPartition, ProduceRequest
from millstream.errors import MalformedFrame
from millstream.wire.api import ApiKey
from tests.properties.kio_entities import NUMBERS, entities, entity_of, kio_bytes, kio_schema

VERSION = 9
batches = st.builds(BatchFor, topic=st.sampled_from(["clicks", "views", "a" * 200]), partition=NUMBERS["int32"], batch=NUMBERS["records"])
answers = entities(kio_schema(ApiKey.PRODUCE, VERSION, "response"))


@given(
    parts=st.lists(batches, max_size=5),
    acks=st.sampled_from([-1, 0, 1]),
    timeout_ms=st.integers(0, 2**31 - 1),
    transactional_id=st.none() | NUMBERS["string"],
)
def test_a_produce_request_is_what_kio_writes(parts: list[BatchFor], acks: int, timeout_ms: int, transactional_id: str | None) -> None:
    request = ProduceRequest(parts, acks, timeout_ms, transactional_id)
    fields = {
        "transactional_id": transactional_id,
        "acks": acks,
        "timeout_ms": timeout_ms,
        "topic_data": [
            {"name": topic, "partition_data": [{"index": each.partition, "records": each.batch} for each in parts if each.topic == topic]}
            for topic in dict.fromkeys(each.topic for each in parts)
        ],
    }
    assert b"".join(request.encode(VERSION)) == kio_bytes(entity_of(kio_schema(ApiKey.PRODUCE, VERSION, "request"), fields))


@given(entity=answers)
def test_a_produce_answer_is_read_as_kio_wrote_it(entity: Any) -> None:
    expected = [
        ProducedPartition(
            topic.name,
            partition.index,
            int(partition.error_code),
            partition.base_offset,
            -1 if partition.log_append_time is None else round(partition.log_append_time.timestamp() * 1000),
            partition.log_start_offset,
            partition.error_message,
        )
        for topic in entity.responses
        for partition in topic.partition_responses
    ]
    throttle_time_ms = round(entity.throttle_time.total_seconds() * 1000)
    assert ProduceRequest([]).decode(VERSION, memoryview(kio_bytes(entity))) == ProduceAnswer(throttle_time_ms, expected)


@given(data=st.data())
def test_a_damaged_produce_answer_is_read_or_malformed(data: st.DataObject) -> None:
    body = bytearray(kio_bytes(data.draw(answers)))
    body[data.draw(st.integers(0, len(body) - 1))] = data.draw(st.integers(0, 255))
    body = body[: data.draw(st.integers(0, len(body)))]
    with suppress(MalformedFrame):
        ProduceRequest([]).decode(VERSION, memoryview(body))
