"""ListOffsets and OffsetForLeaderEpoch at every version, with the special timestamps and the fencing by leader epoch."""

import gzip
from typing import Any

import pytest
from kio.schema.errors import ErrorCode

from tests.batches import encode_batch, encode_block, encode_record
from tests.brokers import Broker
from tests.clients.client import Client
from tests.connection import FETCH, LIST_OFFSETS, OFFSET_FOR_LEADER_EPOCH, PRODUCE, Connection, encode_request
from tests.topics import (
    EARLIEST,
    LATEST,
    MAX_TIMESTAMP,
    create_topic,
    fetch_fields,
    fresh_name,
    list_offset,
    produce,
    produce_fields,
    produce_values,
)

FIRST_MS = 1_700_000_000_000


@pytest.fixture
def timed(broker: Broker) -> str:
    """A topic of three batches of five records; the second has the greatest times."""
    topic = create_topic(broker)
    with broker.connect() as connection:
        for start in (1000, 9000, 5000):
            batch = encode_batch([b"x"] * 5, timestamp=FIRST_MS + start, timestamp_step=10)
            assert produce(connection, topic, batch).error_code == ErrorCode.none
    return topic


@pytest.mark.parametrize("version", range(1, 12))
def test_ends_and_times_are_found_at_every_version(broker: Broker, timed: str, version: int) -> None:
    with broker.connect() as connection:

        def find(timestamp: int) -> tuple[int, int, int]:
            answer = list_offset(connection, timed, timestamp, version=version)
            found = answer.timestamp if isinstance(answer.timestamp, int) else _milliseconds(answer.timestamp)
            return answer.error_code, answer.offset, found

        assert find(EARLIEST) == (0, 0, -1)
        assert find(LATEST) == (0, 15, -1)
        assert find(0) == (0, 0, FIRST_MS + 1000)
        assert find(FIRST_MS + 1011) == (0, 2, FIRST_MS + 1020)
        assert find(FIRST_MS + 2000) == (0, 5, FIRST_MS + 9000)
        assert find(FIRST_MS + 9040) == (0, 9, FIRST_MS + 9040)
        assert find(FIRST_MS + 9041) == (0, -1, -1)
        if version >= 7:
            assert find(MAX_TIMESTAMP) == (0, 9, FIRST_MS + 9040)


@pytest.fixture(scope="module")
def still(broker: Broker) -> str:
    """A topic where time stands still for a thousand batches, moves on at the very end, and then within one large compressed batch."""
    topic, count = create_topic(broker), 1000
    frame = encode_request(PRODUCE, 9, produce_fields(topic, encode_batch([b"x"], timestamp=FIRST_MS)))
    records = b"".join(encode_record(number, b"y", timestamp_delta=number // 19_999) for number in range(20_000))
    large = encode_block(gzip.compress(records), 20_000, timestamp=FIRST_MS + 5, max_timestamp=FIRST_MS + 6, attributes=1)
    with broker.connect() as connection:
        connection.socket.sendall(frame * count)
        for _ in range(count):
            assert connection.receive(PRODUCE, 9)[1].responses[0].partition_responses[0].error_code == ErrorCode.none
        for batch in (encode_batch([b"x"], timestamp=FIRST_MS + 1), large):
            assert produce(connection, topic, batch).error_code == ErrorCode.none
    return topic


def test_offset_for_a_time_is_found_where_many_batches_share_one(broker: Broker, still: str, client: Client) -> None:
    found = [client.offset_for_time(broker, still, FIRST_MS + later) for later in (-1, 0, 1, 2, 5, 6)]
    assert found == [0, 0, 1000, 1001, 1001, 21_000]
    with broker.connect() as connection:
        assert list_offset(connection, still, MAX_TIMESTAMP).offset == 21_000
        assert list_offset(connection, still, FIRST_MS + 7).offset == -1


def _milliseconds(moment: Any) -> int:
    return -1 if moment is None else round(moment.timestamp() * 1000)


def test_empty_partition_has_no_greatest_time(broker: Broker, topic: str) -> None:
    with broker.connect() as connection:
        assert list_offset(connection, topic, MAX_TIMESTAMP).offset == -1
        assert list_offset(connection, topic, 0).offset == -1


def test_unknown_partitions_are_answered_one_by_one(broker: Broker, topic: str) -> None:
    unknown = ErrorCode.unknown_topic_or_partition
    with broker.connect() as connection:
        assert list_offset(connection, topic, LATEST, partition=3).error_code == unknown
        assert list_offset(connection, fresh_name(), LATEST).error_code == unknown


def list_at_epoch(connection: Connection, topic: str, epoch: int) -> int:
    wanted = {"partition_index": 0, "timestamp": LATEST, "current_leader_epoch": epoch}
    fields = {"replica_id": -1, "topics": [{"name": topic, "partitions": [wanted]}]}
    code: int = connection.ask(LIST_OFFSETS, 7, fields).topics[0].partitions[0].error_code
    return code


def fetch_at_epoch(connection: Connection, topic: str, epoch: int) -> int:
    wanted = {"partition": 0, "fetch_offset": 0, "partition_max_bytes": 1000, "current_leader_epoch": epoch}
    fields = fetch_fields(topic, 0, max_wait_ms=0) | {"topics": [{"topic": topic, "partitions": [wanted]}]}
    code: int = connection.ask(FETCH, 12, fields).responses[0].partitions[0].error_code
    return code


@pytest.mark.parametrize("ask", [list_at_epoch, fetch_at_epoch])
def test_client_with_a_leader_epoch_from_the_future_is_refused(broker: Broker, topic: str, ask: Any) -> None:
    with broker.connect() as connection:
        assert ask(connection, topic, -1) == ErrorCode.none
        assert ask(connection, topic, 0) == ErrorCode.none
        assert ask(connection, topic, 1) == ErrorCode.unknown_leader_epoch


@pytest.mark.parametrize("version", range(2, 5))
def test_end_of_an_epoch_is_the_end_of_the_log_while_it_lasts(broker: Broker, topic: str, version: int) -> None:
    produce_values(broker, topic, [b"x"] * 7)
    wanted = [(0, -1, 0), (0, -1, 5), (0, 3, 0), (4, -1, 0)]
    partitions = [{"partition": index, "current_leader_epoch": current, "leader_epoch": epoch} for index, current, epoch in wanted]
    with broker.connect() as connection:
        answer = connection.ask(
            OFFSET_FOR_LEADER_EPOCH, version, {"replica_id": -1, "topics": [{"topic": topic, "partitions": partitions}]}
        )
    found = [(one.error_code, one.leader_epoch, one.end_offset) for one in answer.topics[0].partitions]
    assert found == [
        (ErrorCode.none, 0, 7),
        (ErrorCode.none, -1, -1),
        (ErrorCode.unknown_leader_epoch, -1, -1),
        (ErrorCode.unknown_topic_or_partition, -1, -1),
    ]


@pytest.mark.parametrize("version", [1, 7])
def test_partition_that_is_asked_for_twice_is_refused(broker: Broker, version: int) -> None:
    topic = create_topic(broker, partitions=2)
    asked = [{"partition_index": index, "timestamp": LATEST} for index in (0, 1, 0, 0)]
    with broker.connect() as connection:
        answer = connection.ask(LIST_OFFSETS, version, {"replica_id": -1, "topics": [{"name": topic, "partitions": asked}]})
    found = [(one.partition_index, one.error_code) for topic in answer.topics for one in topic.partitions]
    assert sorted(found) == [(0, ErrorCode.invalid_request), (1, ErrorCode.none)]
