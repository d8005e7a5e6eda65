"""Fetch, seen from the wire: waiting, limits, whole batches, errors per partition."""

from contextlib import ExitStack

import pytest
from kio.schema.errors import ErrorCode

from tests.batches import decode_records, encode_batch, split_batches
from tests.brokers import Broker
from tests.connection import DELETE_RECORDS, FETCH
from tests.topics import create_topic, fetch, fetch_fields, fresh_name, produce, produce_values

VALUES: list[bytes | None] = [b"%d" % number for number in range(30)]


@pytest.mark.parametrize("version", range(4, 13))
def test_fetch_in_the_middle_of_a_batch_returns_the_whole_batch(broker: Broker, topic: str, version: int) -> None:
    produce_values(broker, topic, VALUES, batch_size=10)
    with broker.connect() as connection:
        answer = fetch(connection, topic, 15, version=version)
    records = decode_records(answer.records)
    assert [record.offset for record in records] == list(range(10, 30))
    assert answer.high_watermark == 30
    assert answer.last_stable_offset == 30


def test_first_batch_comes_whole_even_if_it_is_bigger_than_allowed(broker: Broker, topic: str) -> None:
    produce_values(broker, topic, [bytes(50_000)] * 2, batch_size=1)
    with broker.connect() as connection:
        answer = fetch(connection, topic, 0, max_bytes=100)
    assert [record.offset for record in decode_records(answer.records)] == [0]


def test_no_more_than_max_bytes_are_returned_after_the_first_batch(broker: Broker, topic: str) -> None:
    produce_values(broker, topic, [bytes(1000)] * 100, batch_size=1)
    with broker.connect() as connection:
        answer = fetch(connection, topic, 0, max_bytes=10_000)
    assert len(answer.records) <= 10_000
    assert len(decode_records(answer.records)) >= 8


def test_limit_of_the_request_holds_over_all_its_partitions(broker: Broker) -> None:
    topic = create_topic(broker, partitions=4)
    for partition in range(4):
        produce_values(broker, topic, [bytes(1000)] * 10, partition=partition, batch_size=1)
    wanted = [{"partition": index, "fetch_offset": 0, "partition_max_bytes": 1 << 20} for index in range(4)]
    fields = {"replica_id": -1, "max_wait_ms": 0, "max_bytes": 12_000, "topics": [{"topic": topic, "partitions": wanted}]}
    with broker.connect() as connection:
        partitions = connection.ask(FETCH, 12, fields).responses[0].partitions
    assert [partition.error_code for partition in partitions] == [ErrorCode.none] * 4
    assert sum(len(partition.records or b"") for partition in partitions) <= 12_000


def test_fetch_at_the_end_is_empty_and_no_error(broker: Broker, topic: str) -> None:
    produce_values(broker, topic, VALUES)
    with broker.connect() as connection:
        answer = fetch(connection, topic, 30, max_wait_ms=0)
    assert (answer.error_code, answer.records or b"", answer.high_watermark) == (ErrorCode.none, b"", 30)


def test_fetch_that_waits_is_answered_empty_when_its_time_is_over(broker: Broker, topic: str) -> None:
    with broker.connect() as connection:
        answer = fetch(connection, topic, 0, max_wait_ms=50)
    assert (answer.error_code, answer.records or b"") == (ErrorCode.none, b"")


def test_fetch_waits_for_the_bytes_it_asked_for(broker: Broker, topic: str) -> None:
    with broker.connect() as connection:
        connection.send(FETCH, 12, fetch_fields(topic, 0, min_bytes=5000, max_wait_ms=60_000))
        for _ in range(6):
            produce_values(broker, topic, [bytes(1000)])
        answer = connection.receive(FETCH, 12)[1].responses[0].partitions[0]
    assert len(answer.records) >= 5000


def test_fetch_with_an_offset_out_of_range_does_not_wait(broker: Broker) -> None:
    topic = create_topic(broker, partitions=2)
    wanted = [{"partition": index, "fetch_offset": offset, "partition_max_bytes": 1000} for index, offset in ((0, 0), (1, 99))]
    fields = fetch_fields(topic, 0, max_wait_ms=60_000) | {"topics": [{"topic": topic, "partitions": wanted}]}
    with broker.connect() as connection:
        answer = connection.ask(FETCH, 12, fields)
    codes = {one.partition_index: one.error_code for one in answer.responses[0].partitions}
    assert codes == {0: ErrorCode.none, 1: ErrorCode.offset_out_of_range}


def test_fetch_of_unknown_topics_alone_does_not_wait(broker: Broker) -> None:
    with broker.connect() as connection:
        assert fetch(connection, fresh_name(), 0, max_wait_ms=60_000).error_code == ErrorCode.unknown_topic_or_partition


@pytest.mark.parametrize("offset", [31, 10**15, -5])
def test_offset_out_of_range_is_answered_with_the_ends_of_the_log(broker: Broker, topic: str, offset: int) -> None:
    produce_values(broker, topic, VALUES)
    with broker.connect() as connection:
        assert fetch(connection, topic, offset, max_wait_ms=60_000).error_code == ErrorCode.offset_out_of_range


def test_offset_before_the_start_of_the_log_is_out_of_range(broker: Broker, topic: str) -> None:
    produce_values(broker, topic, VALUES, batch_size=10)
    with broker.connect() as connection:
        topics = [{"name": topic, "partitions": [{"partition_index": 0, "offset": 15}]}]
        deleted = connection.ask(DELETE_RECORDS, 2, {"topics": topics, "timeout_ms": 1000}).topics[0].partitions[0]
        assert (deleted.error_code, deleted.low_watermark) == (ErrorCode.none, 15)
        assert fetch(connection, topic, 14).error_code == ErrorCode.offset_out_of_range
        answer = fetch(connection, topic, 15)
    assert answer.log_start_offset == 15
    assert [record.offset for record in decode_records(answer.records) if record.offset >= 15] == list(range(15, 30))


def test_unknown_partition_is_an_error(broker: Broker, topic: str) -> None:
    with broker.connect() as connection:
        assert fetch(connection, topic, 0, partition=1).error_code == ErrorCode.unknown_topic_or_partition


def test_stored_batches_carry_offset_and_leader_epoch(broker: Broker, topic: str) -> None:
    with broker.connect() as connection:
        for _ in range(3):
            assert produce(connection, topic, encode_batch([b"a", b"b"], leader_epoch=99)).error_code == 0
        headers = [header for header, _ in split_batches(fetch(connection, topic, 0).records)]
    assert [header.base_offset for header in headers] == [0, 2, 4]
    assert {header.leader_epoch for header in headers} == {0}


def test_batch_is_returned_byte_for_byte(broker: Broker, topic: str) -> None:
    """Only base offset and leader epoch, which lie before the CRC, belong to the broker."""
    batch = encode_batch([b"a", None, b""], keys=[b"k", None, b""], timestamp=1_600_000_000_000, timestamp_step=3)
    with broker.connect() as connection:
        assert produce(connection, topic, batch).error_code == 0
        stored = fetch(connection, topic, 0).records
    assert stored[16:] == batch[16:]


def test_many_connections_wait_for_the_same_partition(broker: Broker, topic: str) -> None:
    with ExitStack() as stack:
        waiting = [stack.enter_context(broker.connect()) for _ in range(50)]
        for connection in waiting:
            connection.send(FETCH, 12, fetch_fields(topic, 0, max_wait_ms=60_000))
        produce_values(broker, topic, [b"for all"])
        for connection in waiting:
            answer = connection.receive(FETCH, 12)[1].responses[0].partitions[0]
            assert [record.value for record in decode_records(answer.records)] == [b"for all"]


def test_records_are_deleted_up_to_the_last_offset_that_a_partition_is_named_with(broker: Broker, topic: str) -> None:
    produce_values(broker, topic, VALUES)
    topics = [
        {"name": topic, "partitions": [{"partition_index": 0, "offset": 20}, {"partition_index": 0, "offset": 5}]},
        {"name": topic, "partitions": [{"partition_index": 0, "offset": 7}, {"partition_index": 50, "offset": 1}]},
    ]
    with broker.connect() as connection:
        (deleted,) = connection.ask(DELETE_RECORDS, 2, {"topics": topics, "timeout_ms": 10_000}).topics
        assert fetch(connection, topic, 7).log_start_offset == 7
    answers = {one.partition_index: (one.error_code, one.low_watermark) for one in deleted.partitions}
    assert answers == {0: (ErrorCode.none, 7), 50: (ErrorCode.unknown_topic_or_partition, -1)}


@pytest.mark.parametrize("isolation_level", [0, 1])
@pytest.mark.parametrize("version", [4, 12])
def test_missing_partition_has_an_empty_list_of_aborted_transactions_and_another_error_none(
    broker: Broker, topic: str, version: int, isolation_level: int
) -> None:
    places = {"missing topic": (fresh_name(), 0, 0), "missing partition": (topic, 50, 0), "offset": (topic, 0, 99)}
    with broker.connect() as connection:
        aborted = {}
        for case, (name, partition, offset) in places.items():
            fields = fetch_fields(name, offset, partition=partition) | {"isolation_level": isolation_level}
            aborted[case] = connection.ask(FETCH, version, fields).responses[0].partitions[0].aborted_transactions
    assert aborted == {"missing topic": (), "missing partition": (), "offset": None}


def test_fewer_than_no_bytes_of_a_partition_cannot_be_asked_for(broker: Broker, topic: str) -> None:
    produce_values(broker, topic, VALUES)
    with broker.connect() as connection:
        answer = fetch(connection, topic, 0, max_bytes=-1)
        assert (answer.error_code != ErrorCode.none, answer.records) == (True, b"")
        assert fetch(connection, topic, 30, max_bytes=-1, max_wait_ms=0).error_code == ErrorCode.none
