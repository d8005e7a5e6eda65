"""The transactional producers of three Python clients behind one interface."""

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any, Protocol

import aiokafka
import confluent_kafka
import kafka
from kafka.structs import ConsumerGroupMetadata, OffsetAndMetadata

TIMEOUT_S = 60


class TransactionalProducer(Protocol):
    """One transaction after the other."""

    def begin(self) -> None:
        """Begin a transaction."""

    def send(self, topic: str, *values: bytes) -> None:
        """Write to partition 0, and wait until it is written."""

    def send_offset(self, group: str, topic: str, offset: int) -> None:
        """Commit an offset of partition 0 with the transaction."""

    def end(self, *, is_commit: bool) -> None:
        """Commit, or abort."""

    def close(self) -> None:
        """It is used no more."""


class ConfluentProducer:
    """confluent-kafka, which is librdkafka."""

    def __init__(self, brokers: str, transactional_id: str) -> None:
        settings = {"bootstrap.servers": brokers, "log_level": 0}
        self._settings = settings
        self._producer = confluent_kafka.Producer({**settings, "transactional.id": transactional_id})
        self._producer.init_transactions(TIMEOUT_S)

    def begin(self) -> None:
        self._producer.begin_transaction()

    def send(self, topic: str, *values: bytes) -> None:
        for value in values:
            self._producer.produce(topic, value, partition=0)
        self._producer.flush(TIMEOUT_S)

    def send_offset(self, group: str, topic: str, offset: int) -> None:
        consumer = confluent_kafka.Consumer({**self._settings, "group.id": group})
        place = confluent_kafka.TopicPartition(topic, 0, offset)
        self._producer.send_offsets_to_transaction([place], consumer.consumer_group_metadata(), TIMEOUT_S)
        consumer.close()

    def end(self, *, is_commit: bool) -> None:
        if is_commit:
            self._producer.commit_transaction(TIMEOUT_S)
        else:
            self._producer.abort_transaction(TIMEOUT_S)

    def close(self) -> None:
        del self._producer


class KafkaPythonProducer:
    """kafka-python."""

    def __init__(self, brokers: str, transactional_id: str) -> None:
        self._producer = kafka.KafkaProducer(bootstrap_servers=brokers, transactional_id=transactional_id)
        self._producer.init_transactions()

    def begin(self) -> None:
        self._producer.begin_transaction()

    def send(self, topic: str, *values: bytes) -> None:
        for sent in [self._producer.send(topic, value, partition=0) for value in values]:
            sent.get(TIMEOUT_S)

    def send_offset(self, group: str, topic: str, offset: int) -> None:
        place = kafka.TopicPartition(topic, 0)
        self._producer.send_offsets_to_transaction({place: OffsetAndMetadata(offset, "", -1)}, ConsumerGroupMetadata(group, -1, "", None))

    def end(self, *, is_commit: bool) -> None:
        if is_commit:
            self._producer.commit_transaction()
        else:
            self._producer.abort_transaction()

    def close(self) -> None:
        self._producer.close(timeout=0)


class AiokafkaProducer:
    """aiokafka, on a loop of its own."""

    def __init__(self, brokers: str, transactional_id: str) -> None:
        self._loop = asyncio.new_event_loop()

        async def start() -> aiokafka.AIOKafkaProducer:
            producer = aiokafka.AIOKafkaProducer(bootstrap_servers=brokers, transactional_id=transactional_id)
            await producer.start()
            return producer

        self._producer = self._do(start())

    def begin(self) -> None:
        self._do(self._producer.begin_transaction())

    def send(self, topic: str, *values: bytes) -> None:
        for value in values:
            self._do(self._producer.send_and_wait(topic, value, partition=0))

    def send_offset(self, group: str, topic: str, offset: int) -> None:
        self._do(self._producer.send_offsets_to_transaction({aiokafka.TopicPartition(topic, 0): offset}, group))

    def end(self, *, is_commit: bool) -> None:
        self._do(self._producer.commit_transaction() if is_commit else self._producer.abort_transaction())

    def close(self) -> None:
        self._do(self._producer.stop())
        self._loop.close()

    def _do(self, work: Coroutine[Any, Any, Any]) -> Any:
        return self._loop.run_until_complete(asyncio.wait_for(work, TIMEOUT_S))


PRODUCERS: dict[str, Callable[[str, str], TransactionalProducer]] = {
    "confluent-kafka": ConfluentProducer,
    "kafka-python": KafkaPythonProducer,
    "aiokafka": AiokafkaProducer,
}
"""Made with the brokers and a transactional id."""
