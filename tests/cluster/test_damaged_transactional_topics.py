"""A topic whose znode makes no sense when its broker starts, with a transaction open in its log: it is ended when the topic is back."""

from pathlib import Path

import pytest
from kio.schema.errors import ErrorCode

from tests.batches import encode_batch
from tests.brokers import IS_KAFKA, MillstreamBroker
from tests.connection import LIST_OFFSETS, PRODUCE, Connection
from tests.raw_transactions import END_TXN, RawTransaction, end_fields, state_of
from tests.topics import create_topic, produce_fields
from tests.transactional_wire import READ_COMMITTED, TRANSACTIONAL, await_coordinator
from tests.waiting import wait_until
from tests.zookeeper_broker import tree_of

pytestmark = pytest.mark.skipif(IS_KAFKA, reason="Apache Kafka 4 knows no ZooKeeper")

TELLER = "teller"


def write_in_transaction(connection: Connection, topic: str) -> RawTransaction:
    teller = RawTransaction(connection, TELLER)
    teller.add(topic, 0)
    batch = encode_batch([b"paid"], attributes=TRANSACTIONAL, producer_id=teller.producer_id, producer_epoch=teller.epoch, base_sequence=0)
    answer = connection.ask(PRODUCE, 9, {**produce_fields(topic, batch), "transactional_id": TELLER})
    assert answer.responses[0].partition_responses[0].error_code == ErrorCode.none
    return teller


def is_committed(connection: Connection, teller: RawTransaction) -> bool:
    fields = end_fields(TELLER, teller.producer_id, teller.epoch, is_commit=True)
    return bool(connection.ask(END_TXN, 4, fields).error_code == ErrorCode.none)


def last_stable_offset(connection: Connection, topic: str) -> int:
    asked = {"partition_index": 0, "current_leader_epoch": -1, "timestamp": -1}
    topics = [{"name": topic, "partitions": [asked]}]
    answer = connection.ask(LIST_OFFSETS, 4, {"replica_id": -1, "isolation_level": READ_COMMITTED, "topics": topics})
    return int(answer.topics[0].partitions[0].offset)


def test_what_is_committed_while_nothing_is_known_of_a_topic_is_marked_when_it_is_back(tmp_path: Path) -> None:
    """Unknown is not gone: its log has the transaction open, and nobody else would ever end it."""
    (tmp_path / "broker").mkdir()
    broker = MillstreamBroker(tmp_path / "broker", {})
    broker.start()
    try:
        topic = create_topic(broker)
        await_coordinator(broker, TELLER)
        with broker.connect() as connection:
            teller = write_in_transaction(connection, topic)
        path = f"/brokers/topics/{topic}"
        with tree_of(broker.coordination) as tree:
            content, _ = tree.get(path)
            tree.set(path, b"{}")
        broker.restart()
        with broker.connect() as connection:
            wait_until(lambda: is_committed(connection, teller), "the end is decided")
            assert state_of(connection, TELLER) == "PrepareCommit"
        with tree_of(broker.coordination) as tree:
            tree.set(path, content)
            tree.set("/changes", tree.get("/changes")[0])
        with broker.connect() as connection:
            wait_until(lambda: last_stable_offset(connection, topic) == 2, "what was committed is shown")
            assert state_of(connection, TELLER) == "CompleteCommit"
    finally:
        broker.kill()
