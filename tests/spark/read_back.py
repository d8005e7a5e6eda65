"""What is on a topic, as clients of other people read it: many records at a time."""

import warnings
from typing import Any

from confluent_kafka import Consumer, KafkaError, TopicPartition

from tests.brokers import Broker
from tests.clients.client import Message
from tests.clients.confluent_client import consumer_settings
from tests.topics import LATEST, list_offset
from tests.waiting import DEADLINE_S

with warnings.catch_warnings():
    warnings.simplefilter("ignore", DeprecationWarning)  # it reads its schemas with importlib.resources.read_text
    from kafka import KafkaConsumer
    from kafka import TopicPartition as KafkaPythonPartition


def ends(broker: Broker, topic: str) -> list[int]:
    """The end offset of each partition."""
    found: list[int] = []
    with broker.connect() as connection:
        while (answer := list_offset(connection, topic, LATEST, partition=len(found))).error_code == 0:
            found.append(int(answer.offset))
    return found


def read_with_confluent(broker: Broker, topic: str) -> list[Message]:
    """Every record, partition by partition, read by librdkafka."""
    messages: list[Message] = []
    consumer = Consumer(consumer_settings(broker) | {"check.crcs": True})
    try:
        for partition, end in enumerate(ends(broker, topic)):
            consumer.assign([TopicPartition(topic, partition, 0)])
            missing = end
            while missing:
                found = consumer.consume(missing, DEADLINE_S)
                assert found, f"{missing} of {end} records of {topic}-{partition} are missing"
                assert [message.error() for message in found] == [None] * len(found)
                messages += [_from_confluent(message) for message in found]
                missing -= len(found)
    finally:
        consumer.close()
    return messages


def read_with_kafka_python(broker: Broker, topic: str) -> list[Message]:
    """Every record, partition by partition, read by kafka-python."""
    messages: list[Message] = []
    consumer = KafkaConsumer(bootstrap_servers=broker.bootstrap_servers, enable_auto_commit=False, check_crcs=True, max_poll_records=10_000)
    try:
        for partition, end in enumerate(ends(broker, topic)):
            place = KafkaPythonPartition(topic, partition)
            consumer.assign([place])
            consumer.seek_to_beginning(place)
            missing = end
            while missing:
                found = consumer.poll(timeout_ms=int(DEADLINE_S * 1000)).get(place, [])
                assert found, f"{missing} of {end} records of {topic}-{partition} are missing"
                messages += [
                    Message(message.value, message.key, tuple(message.headers), partition=partition, offset=message.offset)
                    for message in found
                ]
                missing -= len(found)
    finally:
        consumer.close()
    return messages


def _from_confluent(message: Any) -> Message:
    headers = tuple(message.headers() or ())
    return Message(message.value(), message.key(), headers, partition=message.partition(), offset=message.offset())


def read_committed(broker: Broker, topic: str) -> list[Message]:
    """What a reader of committed data gets at this moment, partition by partition, read by librdkafka."""
    messages: list[Message] = []
    consumer = Consumer(consumer_settings(broker) | {"isolation.level": "read_committed"})
    try:
        for partition in range(len(ends(broker, topic))):
            consumer.assign([TopicPartition(topic, partition, 0)])
            while (found := consumer.poll(DEADLINE_S)) is not None and found.error() is None:
                messages.append(_from_confluent(found))
            assert found is not None, f"the end of {topic}-{partition} does not come"
            error = found.error()
            assert error is not None
            assert error.code() == KafkaError._PARTITION_EOF, error
    finally:
        consumer.close()
    return messages
