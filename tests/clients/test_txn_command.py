"""`millstream txn` against a real broker, ours or Apache Kafka: list, describe, abort, what hangs."""

from pathlib import Path

import pytest
from confluent_kafka import KafkaException, Producer

from millstream import SimpleConsumer
from tests.batches import encode_batch
from tests.brokers import IS_KAFKA, Broker, StartBroker, make_broker
from tests.connection import PRODUCE
from tests.raw_transactions import RawTransaction
from tests.topics import create_topic, fresh_name, produce_fields
from tests.transactional_wire import await_coordinator
from tests.unit.cli.conftest import Millstream, millstream
from tests.waiting import wait_until

__all__ = ["millstream"]

TRANSACTIONAL = 0x10


@pytest.fixture
def brokers(broker: Broker) -> list[str]:
    return ["-b", broker.bootstrap_servers]


@pytest.fixture
def name() -> str:
    return fresh_name("id")


@pytest.fixture
def producer(broker: Broker, topic: str, name: str) -> Producer:
    """One with a message in a transaction that is open."""
    made = Producer({"bootstrap.servers": broker.bootstrap_servers, "transactional.id": name})
    made.init_transactions(60)
    made.begin_transaction()
    made.produce(topic, b"undecided")
    assert made.flush(60) == 0
    return made


def listed(millstream: Millstream, brokers: list[str], name: str, *flags: str) -> dict[str, object] | None:
    outcome = millstream("txn", "list", "--output", "json", *brokers, *flags)
    assert outcome.code == 0, outcome
    return next((row for row in outcome.documents[0] if row["id"] == name), None)


def test_transactions_are_listed_with_state_producer_age_and_partitions(
    millstream: Millstream, brokers: list[str], producer: Producer, topic: str, name: str
) -> None:
    row = listed(millstream, brokers, name)
    assert row is not None
    assert (row["state"], row["partitions"], row["timeout_seconds"]) == ("ongoing", [[topic, 0]], 60)
    assert 0 <= float(str(row["open_seconds"])) < 60
    table = millstream("txn", "list", *brokers).out
    [line] = [line for line in table.splitlines() if name in line]
    assert line.split()[:2] == [name, "ongoing"]
    assert listed(millstream, brokers, name, "--state", "complete-commit") is None
    producer.commit_transaction(60)
    wait_until(lambda: listed(millstream, brokers, name, "--state", "complete-commit"), "the end of the transaction")


@pytest.mark.usefixtures("producer")
def test_a_transaction_is_described_with_its_offsets(millstream: Millstream, brokers: list[str], topic: str, name: str) -> None:
    [[described]] = millstream("txn", "describe", name, "--output", "json", *brokers).documents
    [partition] = described["partitions"]
    assert (described["id"], partition["topic"], partition["start_offset"]) == (name, topic, 0)
    lines = millstream("txn", "describe", name, *brokers).out.splitlines()
    assert lines[0].split("  ")[:2] == [name, "ongoing"]
    assert lines[2].split() == [topic, "0", "0"]


@pytest.mark.usefixtures("producer")
def test_a_transaction_with_a_topic_that_was_deleted_is_described(
    millstream: Millstream, brokers: list[str], topic: str, name: str
) -> None:
    assert millstream("topic", "delete", topic, *brokers).code == 0
    [[described]] = millstream("txn", "describe", name, "--output", "json", *brokers).documents
    assert [part["topic"] for part in described["partitions"]] == [topic]


def test_the_transaction_of_an_id_is_aborted_with_execute_only(
    millstream: Millstream, broker: Broker, brokers: list[str], producer: Producer, topic: str, name: str
) -> None:
    shown = millstream("txn", "abort", name, *brokers)
    assert (shown.code, topic in shown.out) == (0, True)
    assert "Nothing was changed: repeat with --execute" in shown.err
    row = listed(millstream, brokers, name)
    assert row is not None
    assert row["state"] == "ongoing"
    done = millstream("txn", "abort", name, "--execute", *brokers)
    assert (done.code, f"aborted the transaction of {name}" in done.out) == (0, True)
    with pytest.raises(KafkaException) as fenced:
        producer.commit_transaction(60)
    assert fenced.value.args[0].fatal()
    with SimpleConsumer(broker.bootstrap_servers) as simple:
        wait_until(lambda: simple.latest(topic, 0) == 2, "the marker")
        assert simple.fetch(topic, 0, 0, max_wait_ms=1) == []
    again = millstream("txn", "abort", name, "--execute", *brokers)
    assert (again.code, "has no transaction open" in again.err) == (1, True)


@pytest.mark.skipif(IS_KAFKA, reason="it is started with the same options again")
def test_a_transaction_with_a_longer_time_out_than_is_allowed_by_now_is_aborted(
    millstream: Millstream, start_broker: StartBroker, name: str
) -> None:
    broker = start_broker()
    topic = create_topic(broker)
    await_coordinator(broker, name)
    with broker.connect() as connection:
        RawTransaction(connection, name, timeout_ms=600_000).add(topic, 0)
    broker.options["transaction.max.timeout.ms"] = "5000"
    broker.restart()
    brokers = ["-b", broker.bootstrap_servers]
    outcome = millstream("txn", "abort", name, "--execute", *brokers)
    assert outcome.code == 0, outcome
    row = listed(millstream, brokers, name)
    assert row is not None
    assert row["state"] == "empty"


@pytest.mark.usefixtures("producer")
def test_one_partition_of_what_its_coordinator_knows_is_not_aborted_alone(
    millstream: Millstream, brokers: list[str], topic: str, name: str
) -> None:
    refused = millstream("txn", "abort", topic, "0", "--execute", *brokers)
    assert refused.code == 1
    assert f"`millstream txn abort {name}`" in refused.err
    assert millstream("txn", "list", "--hanging", "--longer-than", "0", "-t", topic, *brokers).out == "No transaction hangs.\n"


@pytest.mark.parametrize(
    ("arguments", "hint"),
    [
        (["describe", "no-such-id"], "There is no transactional id 'no-such-id'"),
        (["abort", "no-such-id"], "There is no transactional id 'no-such-id'"),
        (["abort", "no-such-topic", "0"], "There is no topic 'no-such-topic'"),
        (["list", "--hanging", "-t", "no-such-topic"], "There is no topic 'no-such-topic'"),
    ],
)
def test_what_is_not_there_is_said(millstream: Millstream, brokers: list[str], arguments: list[str], hint: str) -> None:
    outcome = millstream("txn", *arguments, *brokers)
    assert outcome.code == 1
    assert hint in outcome.err


def test_a_topic_that_is_not_there_is_answered_with_the_one_that_was_meant(millstream: Millstream, brokers: list[str], topic: str) -> None:
    outcome = millstream("txn", "abort", topic[:-1] + topic[-1] * 2, "0", *brokers)
    assert outcome.code == 1
    assert f"did you mean {topic}?" in outcome.err


def test_a_partition_without_open_transactions_has_nothing_to_abort(millstream: Millstream, brokers: list[str], topic: str) -> None:
    outcome = millstream("txn", "abort", topic, "0", *brokers)
    assert (outcome.code, f"No transaction is open in {topic}-0" in outcome.err) == (1, True)
    outcome = millstream("txn", "abort", topic, "7", *brokers)
    assert (outcome.code, "has no partition 7: it has 1, from 0 to 0." in outcome.err) == (1, True)


@pytest.mark.skipif(not IS_KAFKA, reason="only a broker that does not verify transactions lets one hang")
def test_what_hangs_is_found_and_aborted(millstream: Millstream, tmp_path: Path) -> None:
    broker = make_broker(tmp_path, {"transaction.partition.verification.enable": "false"})
    broker.start()
    try:
        flags, topic = ["-b", broker.bootstrap_servers], create_topic(broker)
        batch = encode_batch([b"hangs"], attributes=TRANSACTIONAL, producer_id=4711, producer_epoch=3, base_sequence=0)
        with broker.connect() as connection:
            fields = produce_fields(topic, batch) | {"transactional_id": "gone"}
            assert connection.ask(PRODUCE, 9, fields).responses[0].partition_responses[0].error_code == 0
        [[row]] = millstream("txn", "list", "--hanging", "--longer-than", "0", "--output", "json", *flags).documents
        assert (row["topic"], row["partition"], row["producer"], row["start_offset"]) == (topic, 0, 4711, 0)
        assert "No transaction hangs." in millstream("txn", "list", "--hanging", *flags).out
        assert "Nothing was changed" in millstream("txn", "abort", topic, "0", *flags).err
        done = millstream("txn", "abort", topic, "0", "--execute", *flags)
        assert (done.code, "aborted what producer 4711 had open" in done.out) == (0, True), done
        with SimpleConsumer(broker.bootstrap_servers) as simple:
            wait_until(lambda: simple.latest(topic, 0) == 2, "the marker")
    finally:
        broker.kill()
