"""What administrators do to topics while queries read them, through confluent-kafka."""

from confluent_kafka import Consumer, ConsumerGroupTopicPartitions, TopicPartition
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewPartitions

from tests.brokers import Broker


def add_partitions(broker: Broker, topic: str, total: int) -> None:
    """Give the topic more partitions."""
    client = AdminClient({"bootstrap.servers": broker.bootstrap_servers})
    for future in client.create_partitions([NewPartitions(topic, total)]).values():
        future.result(30)


def delete_records(broker: Broker, topic: str, *, before: int, partition: int = 0) -> None:
    """Let the partition begin at an offset."""
    client = AdminClient({"bootstrap.servers": broker.bootstrap_servers})
    for future in client.delete_records([TopicPartition(topic, partition, before)]).values():
        future.result(30)


def committed(broker: Broker, group: str, topic: str | None = None) -> dict[int, int]:
    """The committed offset of each partition of a group, as every tool for groups sees it; of one of its topics, if it has several."""
    client = AdminClient({"bootstrap.servers": broker.bootstrap_servers})
    (future,) = client.list_consumer_group_offsets([ConsumerGroupTopicPartitions(group)]).values()
    return {place.partition: place.offset for place in future.result(30).topic_partitions if topic in {None, place.topic}}


def member_of(broker: Broker, group: str, topic: str) -> Consumer:
    """A consumer that is a member of the group."""
    consumer = Consumer({"bootstrap.servers": broker.bootstrap_servers, "group.id": group, "auto.offset.reset": "earliest"})
    consumer.subscribe([topic])
    assert consumer.poll(30) is not None
    return consumer
