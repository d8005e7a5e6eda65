"""What a reader of committed data gets of transactions that were committed, aborted or are open; of Millstream's and of Kafka's."""

from collections.abc import Iterable
from pathlib import Path

import pytest
from confluent_kafka import Producer
from pyspark.sql import SparkSession

from tests.brokers import Broker
from tests.spark.reading import frame, numbers, run_available, stream, table
from tests.spark.topic_content import write_numbers
from tests.topics import create_topic
from tests.waiting import wait_until

pytestmark = pytest.mark.slow

COMMITTED = {"isolation__level": "read_committed"}


class Transactor:
    """A transactional producer of librdkafka for one topic."""

    def __init__(self, broker: Broker, topic: str) -> None:
        settings = {"transactional.id": topic, "linger.ms": 0, "transaction.timeout.ms": 600_000}
        self.producer = Producer({"bootstrap.servers": broker.bootstrap_servers} | settings)
        self.producer.init_transactions(60)
        self._topic = topic

    def write(self, values: Iterable[int]) -> None:
        """Begin a transaction with these records."""
        self.producer.begin_transaction()
        for value in values:
            self.producer.produce(self._topic, b"%d" % value, partition=0)
        assert self.producer.flush(30) == 0

    def commit(self, *values: int) -> None:
        """A transaction that is committed."""
        self.write(values)
        self.producer.commit_transaction(30)

    def abort(self, *values: int) -> None:
        """A transaction that is aborted."""
        self.write(values)
        self.producer.abort_transaction(30)


@pytest.fixture
def topic_of_transactions(peer: Broker) -> tuple[str, Transactor]:
    topic = create_topic(peer)
    transactor = Transactor(peer, topic)
    transactor.commit(1, 2)
    transactor.abort(3, 4, 5)
    write_numbers(peer, topic, [6])
    transactor.commit(7)
    transactor.abort(8, 9)
    transactor.write([10])
    return topic, transactor


def test_aborted_and_unfinished_transactions_are_not_rows(
    spark: SparkSession, peer: Broker, topic_of_transactions: tuple[str, Transactor]
) -> None:
    topic, transactor = topic_of_transactions

    def read_committed() -> list[int]:
        return numbers(frame(spark, peer, topic, **COMMITTED))

    assert read_committed() == [1, 2, 6, 7]
    assert numbers(frame(spark, peer, topic)) == [1, 2, 3, 4, 5, 6, 7, 8, 9, 10]
    assert numbers(frame(spark, peer, topic, **COMMITTED, maxRecordsPerPartition=2)) == [1, 2, 6, 7]
    transactor.producer.commit_transaction(30)
    # The coordinator has decided; the partition learns of it a moment later.
    wait_until(lambda: read_committed() == [1, 2, 6, 7, 10], "the marker", deadline_s=120)


def test_a_stream_goes_past_what_was_aborted_and_waits_for_what_is_open(
    spark: SparkSession, peer: Broker, topic_of_transactions: tuple[str, Transactor], tmp_path: Path, checkpoint: str
) -> None:
    topic, transactor = topic_of_transactions
    data = stream(spark, peer, topic, **COMMITTED, maxOffsetsPerTrigger=5)
    run_available(data, tmp_path / "table", checkpoint)
    assert table(spark, tmp_path / "table") == [1, 2, 6, 7]
    transactor.producer.abort_transaction(30)
    transactor.commit(11)
    wait_until(lambda: 11 in numbers(frame(spark, peer, topic, **COMMITTED)), "the marker", deadline_s=120)
    run_available(data, tmp_path / "table", checkpoint)
    assert table(spark, tmp_path / "table") == [1, 2, 6, 7, 11]
