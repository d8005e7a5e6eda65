from contextlib import suppress
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from millstream.client.codecs.fetch import FetchAnswer, FetchedPartition, FetchFrom, FetchRequest
from millstream.errors import MalformedFrame
from millstream.wire.api import ApiKey
from tests.properties.fetch_entities import damaged, if_given, partition_fields
from tests.properties.kio_entities import NUMBERS, entities, entity_of, kio_bytes, kio_schema

VERSION = 12
texts, int32, int64 = NUMBERS["string"], NUMBERS["int32"], NUMBERS["int64"]
wanted = st.builds(
    FetchFrom,
    topic=st.sampled_from(["clicks", "views", "a" * 200]),
    partition=int32,
    offset=int64,
    max_bytes=int32,
    leader_epoch=int32,
    last_fetched_epoch=int32,
    log_start_offset=int64,
)
answers = entities(kio_schema(ApiKey.FETCH, VERSION, "response"))


@given(
    parts=st.lists(wanted, max_size=5),
    limits=st.tuples(int32, int32, int32),
    isolation_level=st.integers(0, 1),
    replica_id=int32,
)
def test_a_fetch_request_is_what_kio_writes(
    parts: list[FetchFrom], limits: tuple[int, int, int], isolation_level: int, replica_id: int
) -> None:
    request = FetchRequest(parts, *limits, isolation_level=isolation_level, replica_id=replica_id)
    fields = {
        "replica_id": replica_id,
        "max_wait_ms": limits[0],
        "max_wait": limits[0],
        "min_bytes": limits[1],
        "max_bytes": limits[2],
        "isolation_level": isolation_level,
        "session_id": 0,
        "session_epoch": -1,
        "topics": [
            {"topic": topic, "partitions": [partition_fields(each) for each in parts if each.topic == topic]}
            for topic in dict.fromkeys(each.topic for each in parts)
        ],
        "forgotten_topics_data": [],
        "rack_id": "",
    }
    assert b"".join(request.encode(VERSION)) == kio_bytes(entity_of(kio_schema(ApiKey.FETCH, VERSION, "request"), fields))


@given(entity=answers)
def test_a_fetch_answer_is_read_as_kio_wrote_it(entity: Any) -> None:
    answer = FetchRequest([]).decode(VERSION, memoryview(kio_bytes(entity)))
    expected = [
        FetchedPartition(
            topic.topic,
            partition.partition_index,
            int(partition.error_code),
            partition.high_watermark,
            partition.last_stable_offset,
            partition.log_start_offset,
            tuple((each.producer_id, each.first_offset) for each in partition.aborted_transactions or ()),
            partition.preferred_read_replica,
            memoryview(partition.records or b""),
            if_given(partition.diverging_epoch, "epoch", "end_offset"),
            if_given(partition.current_leader, "leader_id", "leader_epoch"),
        )
        for topic in entity.responses
        for partition in topic.partitions
    ]
    plain = [each._replace(aborted_transactions=tuple(each.aborted_transactions)) for each in answer.partitions]
    throttle_time_ms = round(entity.throttle_time.total_seconds() * 1000)
    assert FetchAnswer(answer.error_code, answer.throttle_time_ms, plain) == (int(entity.error_code), throttle_time_ms, expected)


@given(data=st.data())
def test_a_damaged_fetch_answer_is_read_or_malformed(data: st.DataObject) -> None:
    body = damaged(data, kio_bytes(data.draw(answers)))
    with suppress(MalformedFrame):
        FetchRequest([]).decode(VERSION, body)
