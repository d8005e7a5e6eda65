"""Topic ids in place of names: Metadata 12, Fetch 13 and later, Produce 13, DeleteTopics 6."""

from typing import Any
from uuid import UUID, uuid4

import pytest
from kio.schema.errors import ErrorCode

from tests.batches import decode_records, encode_batch
from tests.brokers import Broker
from tests.connection import DELETE_TOPICS, FETCH, METADATA, PRODUCE, Connection
from tests.topics import create_topic, delete_topic, fresh_name, produce_values, read_all, topic_id
from tests.waiting import wait_until


def fetch_by_id(connection: Connection, identity: UUID, version: int, **session: int) -> Any:
    wanted = {"partition": 0, "fetch_offset": 0, "partition_max_bytes": 1 << 20}
    fields = {"max_wait_ms": 0, "max_bytes": 1 << 20, "topics": [{"topic_id": identity, "partitions": [wanted]}], **session}
    return connection.ask(FETCH, version, fields)


def produce_by_id(connection: Connection, identity: UUID | None, batch: bytes) -> Any:
    topic_data = [{"topic_id": identity, "partition_data": [{"index": 0, "records": batch}]}]
    return connection.ask(PRODUCE, 13, {"acks": -1, "timeout_ms": 1000, "topic_data": topic_data}).responses[0]


@pytest.mark.parametrize("version", range(13, 19))
def test_fetch_by_id_gives_what_was_produced_by_name(broker: Broker, topic: str, version: int) -> None:
    produce_values(broker, topic, [b"a", b"b"])
    identity = topic_id(broker, topic)
    with broker.connect() as connection:
        (found,) = fetch_by_id(connection, identity, version).responses
    assert found.topic_id == identity
    assert [record.value for record in decode_records(found.partitions[0].records)] == [b"a", b"b"]


@pytest.mark.parametrize("version", range(13, 19))
def test_fetch_of_an_unknown_id_is_an_error(broker: Broker, version: int) -> None:
    unknown = uuid4()
    with broker.connect() as connection:
        (found,) = fetch_by_id(connection, unknown, version).responses
    assert (found.topic_id, found.partitions[0].error_code) == (unknown, ErrorCode.unknown_topic_id)


def test_produce_by_id_writes_to_the_topic(broker: Broker, topic: str) -> None:
    identity = topic_id(broker, topic)
    with broker.connect() as connection:
        answer = produce_by_id(connection, identity, encode_batch([b"by id"]))
    assert (answer.topic_id, answer.partition_responses[0].error_code) == (identity, ErrorCode.none)
    assert [record.value for record in read_all(broker, topic)] == [b"by id"]


def test_produce_to_an_unknown_id_is_refused(broker: Broker) -> None:
    unknown = uuid4()
    with broker.connect() as connection:
        answer = produce_by_id(connection, unknown, encode_batch([b"lost"]))
    assert (answer.topic_id, answer.partition_responses[0].error_code) == (unknown, ErrorCode.unknown_topic_id)


def test_metadata_finds_a_topic_by_its_id(broker: Broker, topic: str) -> None:
    identity = topic_id(broker, topic)
    with broker.connect() as connection:
        known, unknown = (
            connection.ask(METADATA, 12, {"topics": [{"name": None, "topic_id": wanted}]}).topics[0] for wanted in (identity, uuid4())
        )
    assert (known.name, known.error_code, len(known.partitions)) == (topic, ErrorCode.none, 1)
    assert unknown.error_code == ErrorCode.unknown_topic_id


def test_every_topic_has_an_id_of_its_own(broker: Broker) -> None:
    ids = {topic_id(broker, create_topic(broker)) for _ in range(5)}
    assert len(ids) == 5


def test_topic_is_deleted_by_its_id(broker: Broker) -> None:
    topic = create_topic(broker)
    identity = topic_id(broker, topic)
    with broker.connect() as connection:
        entries = [{"name": None, "topic_id": identity}, {"name": None, "topic_id": uuid4()}, {"name": fresh_name(), "topic_id": None}]
        answer = connection.ask(DELETE_TOPICS, 6, {"topics": entries, "timeout_ms": 30_000})
    assert [one.error_code for one in answer.responses if one.topic_id == identity] == [ErrorCode.none]
    assert {one.error_code for one in answer.responses} == {
        ErrorCode.none,
        ErrorCode.unknown_topic_id,
        ErrorCode.unknown_topic_or_partition,
    }


def test_topic_that_is_given_by_name_and_by_id_is_not_deleted(broker: Broker) -> None:
    topic, other = create_topic(broker), create_topic(broker)
    identity = topic_id(broker, topic)
    with broker.connect() as connection:
        entries = [{"name": None, "topic_id": identity}, {"name": topic, "topic_id": None}, {"name": other, "topic_id": None}]
        answer = connection.ask(DELETE_TOPICS, 6, {"topics": entries, "timeout_ms": 30_000})
    assert {one.name: one.error_code for one in answer.responses} == {topic: ErrorCode.invalid_request, other: ErrorCode.none}
    assert len(answer.responses) == 2
    assert topic_id(broker, topic) == identity


def test_id_of_a_deleted_topic_stays_unknown_when_the_name_comes_back(broker: Broker) -> None:
    topic = create_topic(broker)
    before = topic_id(broker, topic)
    delete_topic(broker, topic)
    wait_until(lambda: not broker.partition_directory(topic).exists(), "topic gone")
    create_topic(broker, name=topic)
    with broker.connect() as connection:
        wait_until(
            lambda: (
                produce_by_id(connection, before, encode_batch([b"for the old one"])).partition_responses[0].error_code
                == ErrorCode.unknown_topic_id
            ),
            "old id unknown",
        )
    assert read_all(broker, topic) == []


def test_session_of_ids_and_a_request_of_names_do_not_mix(broker: Broker, topic: str) -> None:
    with broker.connect() as connection:
        opened = fetch_by_id(connection, topic_id(broker, topic), 13, session_id=0, session_epoch=0)
        wanted = {"partition": 0, "fetch_offset": 0, "partition_max_bytes": 1000}
        fields = {
            "replica_id": -1,
            "session_id": opened.session_id,
            "session_epoch": 1,
            "topics": [{"topic": topic, "partitions": [wanted]}],
        }
        assert connection.ask(FETCH, 12, fields).error_code == ErrorCode.fetch_session_topic_id_error
