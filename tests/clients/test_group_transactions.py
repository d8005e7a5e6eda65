"""Members of groups that commit in transactions (KIP-447), with librdkafka's consumer and producer and both group protocols."""

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest
from confluent_kafka import Consumer, KafkaError, KafkaException, Producer, TopicPartition
from kio.schema.errors import ErrorCode

from tests.batches import encode_batch
from tests.brokers import Broker
from tests.group_offsets import fetch_stable
from tests.topics import create_topic, fresh_name, produce
from tests.waiting import wait_until

TIMEOUT_S = 60

Join = Callable[[], Consumer]
"""Begins one more member of the group."""


@pytest.fixture
def group() -> str:
    return fresh_name("group")


@pytest.fixture
def topic(group_broker: Broker) -> str:
    """Two partitions, of which the first has ten messages."""
    name = create_topic(group_broker, partitions=2)
    with group_broker.connect() as connection:
        produce(connection, name, encode_batch([b"%d" % number for number in range(10)]))
    return name


@pytest.fixture(params=["classic", "consumer"])
def join(request: pytest.FixtureRequest, group_broker: Broker, group: str, topic: str) -> Iterator[Join]:
    members: list[Consumer] = []

    def begin() -> Consumer:
        settings = {
            "bootstrap.servers": group_broker.bootstrap_servers,
            "group.id": group,
            "group.protocol": request.param,
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
            "isolation.level": "read_committed",
            "log_level": 0,
        }
        members.append(Consumer(settings))
        members[-1].subscribe([topic])
        return members[-1]

    yield begin
    for member in members:
        member.close()


@pytest.fixture
def producer(group_broker: Broker) -> Producer:
    made = Producer({"bootstrap.servers": group_broker.bootstrap_servers, "transactional.id": fresh_name("copier"), "log_level": 0})
    made.init_transactions(TIMEOUT_S)
    return made


def await_assignment(count: int, *members: Consumer) -> None:
    """Until each of them has so many partitions."""

    def is_assigned() -> bool:
        for member in members:
            member.poll(0.05)
        return all(len(member.assignment()) == count for member in members)

    wait_until(is_assigned, f"{count} partitions for each of {len(members)} members", deadline_s=TIMEOUT_S)


def stable_offset(broker: Broker, group: str, topic: str) -> tuple[int, int]:
    """What OffsetFetch with require_stable says of the first partition."""
    with broker.connect() as connection:
        return fetch_stable(connection, group, topic)


@pytest.mark.parametrize("is_commit", [True, False])
def test_reader_of_committed_data_waits_for_the_end_of_the_transaction_that_commits_its_offset(
    group_broker: Broker, group: str, topic: str, join: Join, producer: Producer, is_commit: bool
) -> None:
    member = join()
    await_assignment(2, member)
    member.commit(offsets=[TopicPartition(topic, 0, 2)], asynchronous=False)
    producer.begin_transaction()
    producer.send_offsets_to_transaction([TopicPartition(topic, 0, 7)], member.consumer_group_metadata(), TIMEOUT_S)
    assert stable_offset(group_broker, group, topic) == (ErrorCode.unstable_offset_commit, -1)
    with ThreadPoolExecutor(1) as thread:
        asked = thread.submit(member.committed, [TopicPartition(topic, 0)], TIMEOUT_S)
        if is_commit:
            producer.commit_transaction(TIMEOUT_S)
        else:
            producer.abort_transaction(TIMEOUT_S)
        (committed,) = asked.result(TIMEOUT_S)
    assert committed.error is None
    assert committed.offset == (7 if is_commit else 2)
    assert stable_offset(group_broker, group, topic) == (0, committed.offset)


def test_member_of_a_former_generation_commits_nothing(
    group_broker: Broker, group: str, topic: str, join: Join, producer: Producer
) -> None:
    member = join()
    await_assignment(2, member)
    of_former_generation = member.consumer_group_metadata()
    await_assignment(1, member, join())
    producer.begin_transaction()
    with pytest.raises(KafkaException) as refused:
        producer.send_offsets_to_transaction([TopicPartition(topic, 0, 7)], of_former_generation, TIMEOUT_S)
    error: KafkaError = refused.value.args[0]
    assert error.code() == KafkaError.ILLEGAL_GENERATION
    assert error.txn_requires_abort()
    producer.abort_transaction(TIMEOUT_S)
    assert stable_offset(group_broker, group, topic) == (0, -1)
    producer.begin_transaction()
    producer.send_offsets_to_transaction([TopicPartition(topic, 0, 7)], member.consumer_group_metadata(), TIMEOUT_S)
    producer.commit_transaction(TIMEOUT_S)
    wait_until(lambda: stable_offset(group_broker, group, topic) == (0, 7), "the marker")
