"""Claims 1, 3, 4, 15 and 27: topics, their copies and their partitions.

A producer sends a set of messages of any bytes to a topic. A topic is spread over partitions, of which one broker stores several. A message
goes to a partition at random, or to the one that a key chooses. Consumers may share one copy of a topic, each reading other partitions, or
each have their own copy. Within a partition there is an order; across partitions there is none.
"""

import threading

from confluent_kafka import Producer

from tests.batches import encode_batch
from tests.brokers import Broker
from tests.topics import create_topic, produce, produce_values, read_all
from tests.waiting import DEADLINE_S


def spread(broker: Broker, topic: str, partitions: int) -> list[list[bytes | None]]:
    """The values in each partition."""
    return [[record.value for record in read_all(broker, topic, partition=index)] for index in range(partitions)]


def test_producer_sends_a_set_of_messages_of_any_bytes_in_one_request(broker: Broker, topic: str) -> None:
    values: list[bytes | None] = [bytes([number]) * number for number in range(256)]
    with broker.connect() as connection:
        assert produce(connection, topic, encode_batch(values)).error_code == 0
    assert [record.value for record in read_all(broker, topic)] == values


def test_one_broker_stores_several_partitions_each_a_log_of_its_own(broker: Broker) -> None:
    topic = create_topic(broker, partitions=5)
    for partition in range(5):
        produce_values(broker, topic, [b"%d" % partition] * (partition + 1), partition=partition)
    assert [len(values) for values in spread(broker, topic, 5)] == [1, 2, 3, 4, 5]
    assert all(broker.partition_directory(topic, partition).is_dir() for partition in range(5))


def test_consumers_share_one_copy_by_reading_other_partitions(broker: Broker) -> None:
    topic = create_topic(broker, partitions=2)
    for partition in range(2):
        produce_values(broker, topic, [b"%d" % number for number in range(partition, 20, 2)], partition=partition)
    first, second = spread(broker, topic, 2)
    assert sorted(int(value or b"") for value in first + second) == list(range(20))
    assert not set(first) & set(second)


def test_each_consumer_may_have_its_own_copy(broker: Broker, topic: str) -> None:
    values: list[bytes | None] = [b"%d" % number for number in range(20)]
    produce_values(broker, topic, values)
    copies = [[record.value for record in read_all(broker, topic)] for _ in range(3)]
    assert copies == [values] * 3


def test_messages_without_a_key_are_spread_over_the_partitions(broker: Broker) -> None:
    topic = create_topic(broker, partitions=4)
    producer = Producer({"bootstrap.servers": broker.bootstrap_servers, "sticky.partitioning.linger.ms": 0})
    for number in range(400):
        producer.produce(topic, b"%d" % number)
    assert producer.flush(DEADLINE_S) == 0
    partitions = spread(broker, topic, 4)
    assert all(partitions)
    assert sum(len(values) for values in partitions) == 400


def test_messages_of_one_key_go_to_one_partition(broker: Broker) -> None:
    topic = create_topic(broker, partitions=4)
    producer = Producer({"bootstrap.servers": broker.bootstrap_servers})
    for number in range(200):
        producer.produce(topic, b"%d" % number, key=b"member-%d" % (number % 10))
    assert producer.flush(DEADLINE_S) == 0
    keys = [{record.key for record in read_all(broker, topic, partition=index)} for index in range(4)]
    assert sum(len(found) for found in keys) == 10


def test_order_is_kept_within_a_partition_while_many_write_to_it(broker: Broker, topic: str) -> None:
    def write(name: int) -> None:
        with broker.connect() as connection:
            for number in range(50):
                assert produce(connection, topic, encode_batch([b"%d:%d" % (name, number)])).error_code == 0

    writers = [threading.Thread(target=write, args=(name,)) for name in range(5)]
    for writer in writers:
        writer.start()
    for writer in writers:
        writer.join()
    values = [(record.value or b"").split(b":") for record in read_all(broker, topic)]
    for name in range(5):
        assert [int(number) for who, number in values if int(who) == name] == list(range(50))
