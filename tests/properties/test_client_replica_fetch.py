from contextlib import suppress
from typing import Any
from uuid import UUID

from hypothesis import given
from hypothesis import strategies as st

from millstream.client.codecs.replica_fetch import ReplicaFetchAnswer, ReplicaFetched, ReplicaFetchRequest, ReplicaWanted
from millstream.errors import MalformedFrame
from millstream.wire.api import ApiKey
from tests.properties.fetch_entities import damaged, if_given, partition_fields
from tests.properties.kio_entities import NUMBERS, entities, entity_of, kio_bytes, kio_schema

VERSION = 15
int32, int64 = NUMBERS["int32"], NUMBERS["int64"]
topic_ids = st.sampled_from([UUID(int=number).bytes for number in (1, 2**64, 2**128 - 1)])
wanted = st.builds(
    ReplicaWanted,
    topic_id=topic_ids,
    partition=int32,
    leader_epoch=int32,
    offset=int64,
    last_fetched_epoch=int32,
    log_start_offset=int64,
    max_bytes=int32,
)
answers = entities(kio_schema(ApiKey.FETCH, VERSION, "response"))


@given(
    parts=st.lists(wanted, max_size=5),
    forgotten=st.lists(st.tuples(topic_ids, int32), max_size=5),
    limits=st.tuples(int32, int32, int32),
    session=st.tuples(int32, int32),
    replica=st.tuples(st.integers(0, 2**31 - 1), int64),
)
def test_a_followers_fetch_is_what_kio_writes(
    parts: list[ReplicaWanted],
    forgotten: list[tuple[bytes, int]],
    limits: tuple[int, int, int],
    session: tuple[int, int],
    replica: tuple[int, int],
) -> None:
    request = ReplicaFetchRequest(*replica, *session, parts, forgotten, *limits)
    fields = {
        "replica_state": {"replica_id": replica[0], "replica_epoch": replica[1]},
        "max_wait_ms": limits[0],
        "max_wait": limits[0],
        "min_bytes": limits[1],
        "max_bytes": limits[2],
        "isolation_level": 0,
        "session_id": session[0],
        "session_epoch": session[1],
        "topics": [
            {"topic_id": topic, "partitions": [partition_fields(each) for each in parts if each.topic_id == topic]}
            for topic in dict.fromkeys(each.topic_id for each in parts)
        ],
        "forgotten_topics_data": [
            {"topic_id": topic, "partitions": [index for each, index in forgotten if each == topic]}
            for topic in dict.fromkeys(each for each, _ in forgotten)
        ],
        "rack_id": "",
    }
    assert b"".join(request.encode(VERSION)) == kio_bytes(entity_of(kio_schema(ApiKey.FETCH, VERSION, "request"), fields))


@given(entity=answers)
def test_an_answer_to_a_follower_is_read_as_kio_wrote_it(entity: Any) -> None:
    answer = ReplicaFetchRequest(1, 1, 0, 0, [], [], 0, 0, 0).decode(VERSION, memoryview(kio_bytes(entity)))
    expected = [
        ReplicaFetched(
            ((topic.topic_id or UUID(int=0)).bytes, partition.partition_index),
            int(partition.error_code),
            partition.high_watermark,
            partition.log_start_offset,
            memoryview(partition.records or b""),
            if_given(partition.diverging_epoch, "epoch", "end_offset"),
        )
        for topic in entity.responses
        for partition in topic.partitions
    ]
    throttle_time_ms = round(entity.throttle_time.total_seconds() * 1000)
    assert answer == ReplicaFetchAnswer(int(entity.error_code), throttle_time_ms, entity.session_id, expected)


@given(data=st.data())
def test_a_damaged_answer_to_a_follower_is_read_or_malformed(data: st.DataObject) -> None:
    body = damaged(data, kio_bytes(data.draw(answers)))
    with suppress(MalformedFrame):
        ReplicaFetchRequest(1, 1, 0, 0, [], [], 0, 0, 0).decode(VERSION, body)
