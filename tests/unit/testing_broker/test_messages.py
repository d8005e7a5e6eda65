from contextlib import suppress
from datetime import UTC, datetime

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition

import millstream
from millstream import Message
from millstream.client.key_partition import key_partition
from millstream.errors import InvalidConfig, InvalidTopic, TopicAlreadyExists, UnknownTopicOrPartition
from millstream.testing import Broker
from millstream.testing_broker import messages


def commit(broker: Broker, group: str, *places: TopicPartition) -> None:
    consumer = Consumer({"bootstrap.servers": broker.bootstrap_servers, "group.id": group, "enable.auto.commit": False})
    consumer.commit(offsets=list(places), asynchronous=False)
    consumer.close()


def test_what_was_produced_is_consumed_with_all_that_belongs_to_it(broker: Broker) -> None:
    moment = datetime(2026, 11, 14, 8, tzinfo=UTC)
    broker.produce("whole", b"bytes", "text", None, key="k", headers={"h": b"1", "none": None}, timestamp=moment)
    messages = broker.consume("whole", 3)
    assert [message.payload for message in messages] == [b"bytes", b"text", None]
    assert {message.key for message in messages} == {b"k"}
    assert messages[0].headers == [("h", b"1"), ("none", None)]
    assert messages[0].timestamp_ms == int(moment.timestamp() * 1000)
    assert [message.offset for message in messages] == [0, 1, 2]


def test_other_clients_read_what_was_produced_and_write_what_is_consumed(broker: Broker) -> None:
    broker.produce("shared", "ours", key="k")
    consumer = Consumer({"bootstrap.servers": broker.bootstrap_servers, "group.id": "shared"})
    consumer.assign([TopicPartition("shared", 0, 0)])
    [message] = consumer.consume(1, timeout=30)
    consumer.close()
    assert (message.key(), message.value()) == (b"k", b"ours")
    producer = Producer({"bootstrap.servers": broker.bootstrap_servers, "compression.type": "lz4"})
    producer.produce("shared", "theirs")
    producer.flush(30)
    assert [message.payload for message in broker.consume("shared", 2)] == [b"ours", b"theirs"]


def test_keys_go_where_every_client_puts_them_and_the_others_take_turns(broker: Broker) -> None:
    broker.create_topic("spread", partitions=3)
    broker.produce("spread", *[Message(str(number), f"key-{number}") for number in range(10)])
    assert all(message.partition == key_partition(message.key or b"", 3) for message in broker.consume("spread", 10))
    broker.create_topic("turns", partitions=3)
    broker.produce("turns", "a", "b", "c", "d")
    broker.produce("turns", "e", partition=2)
    assert [(message.partition, message.payload) for message in broker.consume("turns", 5)] == [
        (0, b"a"),
        (0, b"d"),
        (1, b"b"),
        (2, b"c"),
        (2, b"e"),
    ]


def test_all_that_is_there_is_given_and_not_only_what_was_expected(broker: Broker) -> None:
    broker.produce("more", "a", "b")
    assert [message.payload for message in broker.consume("more", 1)] == [b"a", b"b"]
    assert [message.payload for message in broker.consume("more")] == [b"a", b"b"]
    assert broker.consume("never-written") == []


def test_too_few_messages_fail_the_test_with_those_that_are_there(broker: Broker) -> None:
    broker.produce("few", "one")
    with pytest.raises(AssertionError, match=r"^after 0.1 s 'few' has 1 of 2 messages: b'one'$"):
        broker.consume("few", 2, timeout_s=0.1)
    with pytest.raises(AssertionError, match=r"^there is no topic 'fwe' after 0.1 s; there are .*few"):
        broker.consume("fwe", 1, timeout_s=0.1)


def test_a_name_that_no_topic_can_have_is_not_waited_for(broker: Broker, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(messages, "_APPEARS_S", 600.0)
    with pytest.raises(InvalidTopic, match="no topic"):
        broker.produce("no topic", "a")


def test_topics_are_created_with_their_options_and_only_once(broker: Broker) -> None:
    broker.create_topic("made", partitions=2, options={"max.message.bytes": 1_000, "preallocate": False})
    with pytest.raises(TopicAlreadyExists, match="made"):
        broker.create_topic("made")
    with pytest.raises(InvalidConfig, match=r"max\.message\.byte"):
        broker.create_topic("other", options={"max.message.byte": 1})


def test_a_lag_of_zero_is_waited_for(broker: Broker) -> None:
    broker.create_topic("lagging", partitions=2)
    broker.produce("lagging", "a", "b", "c")
    with pytest.raises(
        AssertionError,
        match=r"^after 0 s the group 'readers' is 3 messages behind in 'lagging' \(partition 0: 2, partition 1: 1\); it has committed "
        r"nothing here \(a group of the paper's consumer commits to ZooKeeper, which is not looked at\)$",
    ):
        broker.wait_for_lag("readers", "lagging", timeout_s=0)
    commit(broker, "readers", TopicPartition("lagging", 0, 2))
    broker.wait_for_lag("readers", "lagging", max_lag=1)
    with pytest.raises(AssertionError, match=r"partition 1: 1\)$"):
        broker.wait_for_lag("readers", "lagging", timeout_s=0)
    commit(broker, "readers", TopicPartition("lagging", 1, 1))
    broker.wait_for_lag("readers", "lagging")
    with pytest.raises(UnknownTopicOrPartition):
        broker.wait_for_lag("readers", "nosuch")


def test_what_no_reader_of_committed_messages_is_shown_is_no_lag(broker: Broker) -> None:
    broker.create_topic("transactional")
    with millstream.Producer(broker.bootstrap_servers, transactional_id="t") as producer:
        with producer.transaction():
            producer.send("transactional", b"a")
        commit(broker, "committed", TopicPartition("transactional", 0, 1))
        broker.wait_for_lag("committed", "transactional")
        with suppress(ValueError), producer.transaction():
            producer.send("transactional", b"b")
            producer.flush()
            with pytest.raises(AssertionError, match=r"partition 0: 2\)$"):
                broker.wait_for_lag("committed", "transactional", timeout_s=0)
            raise ValueError
        broker.wait_for_lag("committed", "transactional")
        with producer.transaction():
            producer.send("transactional", b"c")
    with pytest.raises(AssertionError, match="behind"):
        broker.wait_for_lag("committed", "transactional", timeout_s=0)
