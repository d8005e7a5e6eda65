"""Sequences of idempotent producers, seen from the wire: duplicates, gaps, epochs."""

import pytest
from kio.schema.errors import ErrorCode

from tests.batches import encode_batch
from tests.brokers import Broker
from tests.connection import DESCRIBE_PRODUCERS, INIT_PRODUCER_ID, Connection
from tests.topics import create_topic, produce, read_all
from tests.waiting import wait_until


def new_producer_id(connection: Connection, *, version: int = 4) -> int:
    """An id from the broker, asked for until it has one to give."""
    fields = {"transactional_id": None, "transaction_timeout_ms": 60000, "producer_id": -1, "producer_epoch": -1}

    def ask() -> tuple[int, int] | None:
        answer = connection.ask(INIT_PRODUCER_ID, version, fields)
        if answer.error_code == ErrorCode.coordinator_load_in_progress:
            return None
        assert answer.error_code == ErrorCode.none
        return answer.producer_id, answer.producer_epoch

    producer_id, epoch = wait_until(ask, "a producer id") or (-1, -1)
    assert producer_id >= 0
    assert epoch == 0
    return producer_id


def send(
    connection: Connection, topic: str, producer: int, sequence: int, *, count: int = 1, epoch: int = 0, partition: int = 0
) -> tuple[int, int]:
    """Error code and base offset of a batch of `count` records with this sequence."""
    batch = encode_batch(
        [b"%d" % (sequence + index) for index in range(count)], producer_id=producer, producer_epoch=epoch, base_sequence=sequence
    )
    answer = produce(connection, topic, batch, partition=partition)
    return answer.error_code, answer.base_offset


@pytest.mark.parametrize("version", range(6))
def test_every_producer_gets_an_id_of_its_own(broker: Broker, version: int) -> None:
    with broker.connect() as connection:
        ids = [new_producer_id(connection, version=version) for _ in range(10)]
    assert len(set(ids)) == 10


def test_batch_sent_again_is_answered_with_its_first_offset_and_stored_once(broker: Broker, topic: str) -> None:
    with broker.connect() as connection:
        producer = new_producer_id(connection)
        assert send(connection, topic, producer, 0, count=3) == (0, 0)
        assert send(connection, topic, producer, 3, count=2) == (0, 3)
        assert send(connection, topic, producer, 0, count=3) == (0, 0)
        assert send(connection, topic, producer, 3, count=2) == (0, 3)
    assert [record.value for record in read_all(broker, topic)] == [b"0", b"1", b"2", b"3", b"4"]


def test_the_last_five_batches_of_a_producer_are_remembered(broker: Broker, topic: str) -> None:
    with broker.connect() as connection:
        producer = new_producer_id(connection)
        for sequence in range(8):
            assert send(connection, topic, producer, sequence) == (0, sequence)
        for sequence in range(3, 8):
            assert send(connection, topic, producer, sequence) == (0, sequence)
        for sequence in range(3):
            assert send(connection, topic, producer, sequence)[0] in (
                ErrorCode.out_of_order_sequence_number,
                ErrorCode.duplicate_sequence_number,
            )
    assert len(read_all(broker, topic)) == 8


def test_gap_in_the_sequence_is_refused(broker: Broker, topic: str) -> None:
    with broker.connect() as connection:
        producer = new_producer_id(connection)
        assert send(connection, topic, producer, 0) == (0, 0)
        assert send(connection, topic, producer, 2)[0] == ErrorCode.out_of_order_sequence_number
        assert send(connection, topic, producer, 1) == (0, 1)


def test_new_epoch_starts_at_sequence_0_and_ends_the_old_one(broker: Broker, topic: str) -> None:
    with broker.connect() as connection:
        producer = new_producer_id(connection)
        assert send(connection, topic, producer, 0) == (0, 0)
        assert send(connection, topic, producer, 5, epoch=1)[0] == ErrorCode.out_of_order_sequence_number
        assert send(connection, topic, producer, 0, epoch=1) == (0, 1)
        assert send(connection, topic, producer, 1, epoch=0)[0] == ErrorCode.invalid_producer_epoch


def test_sequences_go_on_after_the_greatest_number_with_0(broker: Broker, topic: str) -> None:
    with broker.connect() as connection:
        producer = new_producer_id(connection)
        assert send(connection, topic, producer, 2**31 - 2, count=1) == (0, 0)
        assert send(connection, topic, producer, 2**31 - 1, count=3) == (0, 1)
        assert send(connection, topic, producer, 2) == (0, 4)


def test_sequences_are_kept_per_partition(broker: Broker) -> None:
    topic = create_topic(broker, partitions=2)
    with broker.connect() as connection:
        producer = new_producer_id(connection)
        assert send(connection, topic, producer, 0, partition=0) == (0, 0)
        assert send(connection, topic, producer, 0, partition=1) == (0, 0)
        assert send(connection, topic, producer, 1, partition=1) == (0, 1)


def test_producer_without_a_sequence_is_refused(broker: Broker, topic: str) -> None:
    with broker.connect() as connection:
        assert send(connection, topic, new_producer_id(connection), -1)[0] == ErrorCode.invalid_record


def test_producers_of_a_partition_are_described(broker: Broker, topic: str) -> None:
    with broker.connect() as connection:
        producer = new_producer_id(connection)
        assert send(connection, topic, producer, 0, count=3) == (0, 0)
        answer = connection.ask(DESCRIBE_PRODUCERS, 0, {"topics": [{"name": topic, "partition_indexes": [0, 7]}]})
    known, unknown = answer.topics[0].partitions
    (state,) = known.active_producers
    assert (state.producer_id, state.producer_epoch, state.last_sequence) == (producer, 0, 2)
    assert unknown.error_code == ErrorCode.unknown_topic_or_partition
