"""Incremental fetch sessions (KIP-227): only what changed is asked for and answered."""

from collections.abc import Sequence
from typing import Any

import pytest
from kio.schema.errors import ErrorCode

from tests.batches import decode_records
from tests.brokers import Broker
from tests.connection import FETCH, Connection
from tests.topics import create_topic, fetch_fields, produce_values

FULL, CLOSE = 0, -1


def ask(
    connection: Connection, session: int, epoch: int, wanted: Sequence[tuple[str, int, int]] = (), *, forget: Sequence[tuple[str, int]] = ()
) -> Any:
    """A session fetch without waiting; `wanted` is (topic, partition, offset), `forget` is (topic, partition)."""
    fields = {
        "replica_id": -1,
        "max_wait_ms": 0,
        "min_bytes": 0,
        "max_bytes": 1 << 26,
        "session_id": session,
        "session_epoch": epoch,
        "topics": [
            {"topic": topic, "partitions": [{"partition": index, "fetch_offset": offset, "partition_max_bytes": 1 << 20}]}
            for topic, index, offset in wanted
        ],
        "forgotten_topics_data": [{"topic": topic, "partitions": [index]} for topic, index in forget],
    }
    return connection.ask(FETCH, 12, fields)


def answered(answer: Any) -> dict[tuple[str, int], int]:
    """Number of records for each partition in the answer."""
    return {
        (one.topic, partition.partition_index): len(decode_records(partition.records))
        for one in answer.responses
        for partition in one.partitions
    }


@pytest.fixture
def pair(broker: Broker) -> str:
    """A topic with two partitions."""
    return create_topic(broker, partitions=2)


def open_session(connection: Connection, topic: str) -> int:
    answer = ask(connection, 0, FULL, [(topic, 0, 0), (topic, 1, 0)])
    assert answer.error_code == ErrorCode.none
    assert answered(answer) == {(topic, 0): 0, (topic, 1): 0}
    assert answer.session_id > 0
    session: int = answer.session_id
    return session


def test_incremental_fetch_answers_only_partitions_with_news(broker: Broker, pair: str) -> None:
    with broker.connect() as connection:
        session = open_session(connection, pair)
        assert answered(ask(connection, session, 1)) == {}
        produce_values(broker, pair, [b"x"], partition=1)
        answer = ask(connection, session, 2)
        assert answer.session_id == session
        assert answered(answer) == {(pair, 1): 1}
        assert answered(ask(connection, session, 3, [(pair, 1, 1)])) == {}


def test_partition_can_join_a_session_and_be_forgotten(broker: Broker, pair: str) -> None:
    produce_values(broker, pair, [b"x"], partition=0)
    produce_values(broker, pair, [b"y"], partition=1)
    with broker.connect() as connection:
        session = ask(connection, 0, FULL, [(pair, 0, 0)]).session_id
        assert answered(ask(connection, session, 1, [(pair, 1, 0)])) == {(pair, 0): 1, (pair, 1): 1}
        assert answered(ask(connection, session, 2, forget=[(pair, 0)])) == {(pair, 1): 1}


def test_session_waits_for_all_its_partitions(broker: Broker, pair: str) -> None:
    with broker.connect() as connection:
        session = open_session(connection, pair)
        fields = fetch_fields(pair, 0, max_wait_ms=60_000) | {"session_id": session, "session_epoch": 1, "topics": []}
        connection.send(FETCH, 12, fields)
        produce_values(broker, pair, [b"x"], partition=1)
        assert answered(connection.receive(FETCH, 12)[1]) == {(pair, 1): 1}


def test_session_request_out_of_turn_is_refused(broker: Broker, pair: str) -> None:
    with broker.connect() as connection:
        session = open_session(connection, pair)
        assert ask(connection, session, 5).error_code == ErrorCode.invalid_fetch_session_epoch
        assert ask(connection, session, 1).error_code == ErrorCode.none


def test_unknown_session_is_an_error(broker: Broker) -> None:
    with broker.connect() as connection:
        answer = ask(connection, 123456789, 1)
    assert answer.error_code == ErrorCode.fetch_session_id_not_found
    assert answered(answer) == {}


def test_closed_session_is_unknown_afterwards(broker: Broker, pair: str) -> None:
    with broker.connect() as connection:
        session = open_session(connection, pair)
        closed = ask(connection, session, CLOSE, [(pair, 0, 0)])
        assert (closed.error_code, closed.session_id) == (ErrorCode.none, 0)
        assert ask(connection, session, 1).error_code == ErrorCode.fetch_session_id_not_found


def test_fetch_without_a_session_has_the_id_0(broker: Broker, pair: str) -> None:
    with broker.connect() as connection:
        assert ask(connection, 0, CLOSE, [(pair, 0, 0)]).session_id == 0


def test_session_can_begin_with_nothing_and_partitions_join_it(broker: Broker, pair: str) -> None:
    with broker.connect() as connection:
        session = ask(connection, 0, FULL).session_id
        assert session != 0
        answer = ask(connection, session, 1, [(pair, 0, 0)])
        assert (answer.error_code, answer.session_id, answered(answer)) == (ErrorCode.none, session, {(pair, 0): 0})


def test_epoch_0_with_a_session_starts_it_anew(broker: Broker, pair: str) -> None:
    with broker.connect() as connection:
        first = open_session(connection, pair)
        again = ask(connection, first, FULL, [(pair, 0, 0)])
        assert again.error_code == ErrorCode.none
        assert ask(connection, first, 1).error_code == ErrorCode.fetch_session_id_not_found
        assert ask(connection, again.session_id, 1).error_code == ErrorCode.none


def test_error_of_a_partition_is_repeated_in_a_session_until_it_is_gone(broker: Broker, pair: str) -> None:
    with broker.connect() as connection:
        answer = ask(connection, 0, FULL, [(pair, 0, 0), (pair, 9, 0)])
        session = answer.session_id
        for epoch in (1, 2):
            again = ask(connection, session, epoch)
            assert [one.partitions[0].error_code for one in again.responses] == [ErrorCode.unknown_topic_or_partition]


def test_session_lives_on_another_connection(broker: Broker, pair: str) -> None:
    with broker.connect() as first, broker.connect() as second:
        session = open_session(first, pair)
        assert ask(second, session, 1).error_code == ErrorCode.none
