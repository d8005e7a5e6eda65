"""A broker killed with SIGKILL while transactions are open: they go on, or are aborted when their time is up; none stays open for ever."""

import pytest
from confluent_kafka import Producer

from tests.brokers import Broker, StartBroker
from tests.connection import LIST_OFFSETS
from tests.topics import LATEST, create_topic, read_all
from tests.waiting import wait_until

READ_COMMITTED = 1


@pytest.fixture
def broker(start_broker: StartBroker) -> Broker:
    return start_broker(
        transaction_state_log_num_partitions=3,
        transaction_state_log_replication_factor=1,
        transaction_state_log_min_isr=1,
        transaction_abort_timed_out_transaction_cleanup_interval_ms=200,
    )


def last_stable_offset(broker: Broker, topic: str) -> int:
    asked = [{"name": topic, "partitions": [{"partition_index": 0, "timestamp": LATEST, "current_leader_epoch": -1}]}]
    with broker.connect() as connection:
        answer = connection.ask(LIST_OFFSETS, 7, {"replica_id": -1, "isolation_level": READ_COMMITTED, "topics": asked})
    return int(answer.topics[0].partitions[0].offset)


def test_open_transaction_goes_on_and_one_that_nobody_ends_is_aborted(broker: Broker) -> None:
    topic, deserted = create_topic(broker), create_topic(broker)
    settings = {"bootstrap.servers": broker.bootstrap_servers, "log_level": 0}
    producer = Producer({**settings, "transactional.id": "goes on"})
    gone = Producer({**settings, "transactional.id": "deserted", "transaction.timeout.ms": 1_000})
    for one, name in ((producer, topic), (gone, deserted)):
        one.init_transactions(60)
        one.begin_transaction()
        one.produce(name, b"before", partition=0)
        assert one.flush(60) == 0
    broker.kill()
    broker.start()
    assert last_stable_offset(broker, topic) == 0
    producer.produce(topic, b"after", partition=0)
    producer.commit_transaction(60)
    wait_until_stable(broker, topic, 3)
    assert [record.value for record in read_all(broker, topic)][:2] == [b"before", b"after"]
    wait_until_stable(broker, deserted, 2)
    gone.purge()


def wait_until_stable(broker: Broker, topic: str, offset: int) -> None:
    """The marker follows the records: nothing is open below this offset."""
    wait_until(lambda: last_stable_offset(broker, topic) == offset, f"{topic} is stable up to {offset}")
