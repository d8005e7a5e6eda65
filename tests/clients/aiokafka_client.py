"""aiokafka as a `Client`; each writer and reader has an event loop of its own that runs while it is asked something."""

import asyncio
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, TopicPartition
from aiokafka import errors as aiokafka_errors

from tests.brokers import Broker
from tests.clients.client import FetchLimits, Message, Refused, Start
from tests.clients.kafka_python_client import to_message
from tests.waiting import DEADLINE_S


class AiokafkaWriter:
    """An AIOKafkaProducer."""

    def __init__(self, runner: asyncio.Runner, producer: Any) -> None:
        self.runner = runner
        self.producer = producer

    def write(self, topic: str, messages: Sequence[Message]) -> list[int]:
        """Send all in order and wait for each."""
        return self.runner.run(self._write(topic, messages))

    async def _write(self, topic: str, messages: Sequence[Message]) -> list[int]:
        try:
            futures = [
                await self.producer.send(
                    topic,
                    value=message.value,
                    key=message.key,
                    headers=list(message.headers),
                    partition=message.partition,
                    timestamp_ms=message.timestamp,
                )
                for message in messages
            ]
            async with asyncio.timeout(DEADLINE_S):
                done = [await future for future in futures]
        except aiokafka_errors.BrokerResponseError as error:
            raise Refused(error.errno, str(error)) from error
        return [-1 if one is None else one.offset for one in done]


class AiokafkaReader:
    """An AIOKafkaConsumer with one assigned partition."""

    def __init__(self, runner: asyncio.Runner, consumer: Any, partition: Any) -> None:
        self.runner = runner
        self.consumer = consumer
        self.partition = partition

    def read(self, count: int) -> list[Message]:
        """Take messages one by one until there are so many."""
        return self.runner.run(self._read(count))

    def seek(self, offset: int) -> None:
        """Go on from another offset."""
        self.runner.run(self._seek(offset))

    def settle(self) -> None:
        """Ask for the position, which fixes it."""
        self.runner.run(self.consumer.position(self.partition))

    async def _seek(self, offset: int) -> None:
        self.consumer.seek(self.partition, offset)

    async def _read(self, count: int) -> list[Message]:
        try:
            async with asyncio.timeout(DEADLINE_S):
                return [to_message(await self.consumer.getone()) for _ in range(count)]
        except aiokafka_errors.OffsetOutOfRangeError as error:
            raise Refused(error.errno, str(error)) from error


class AiokafkaClient:
    """aiokafka."""

    name = "aiokafka"
    codecs = frozenset({"none", "gzip", "snappy", "lz4", "zstd"})

    @contextmanager
    def writer(
        self, broker: Broker, *, codec: str = "none", acks: int = -1, idempotent: bool = False, max_request_bytes: int = 1 << 20
    ) -> Iterator[AiokafkaWriter]:
        """A producer with a linger long enough to make batches."""
        with asyncio.Runner() as runner:

            async def start() -> Any:
                producer = AIOKafkaProducer(
                    bootstrap_servers=broker.bootstrap_servers,
                    compression_type=None if codec == "none" else codec,
                    acks="all" if acks == -1 else acks,
                    enable_idempotence=idempotent,
                    linger_ms=20,
                    max_request_size=max_request_bytes,
                )
                await producer.start()
                return producer

            producer = runner.run(start())
            try:
                yield AiokafkaWriter(runner, producer)
            finally:
                runner.run(producer.stop())

    @contextmanager
    def reader(
        self, broker: Broker, topic: str, *, start: Start = "earliest", partition: int = 0, max_bytes: int = 1 << 20
    ) -> Iterator[AiokafkaReader]:
        """A consumer without a group."""
        with asyncio.Runner() as runner:
            consumer = runner.run(_start_consumer(broker, max_partition_fetch_bytes=max_bytes, check_crcs=True, fetch_max_wait_ms=100))
            assigned = TopicPartition(topic, partition)
            try:
                runner.run(_assign(consumer, [assigned], start))
                yield AiokafkaReader(runner, consumer, assigned)
            finally:
                runner.run(consumer.stop())

    def read_topic(self, broker: Broker, topic: str, *, partitions: int, count: int, limits: FetchLimits) -> list[Message]:
        """One consumer with all partitions."""
        assigned = [TopicPartition(topic, partition) for partition in range(partitions)]
        with asyncio.Runner() as runner:
            consumer = runner.run(_start_consumer(broker, **limits.named("fetch_max_bytes", "max_partition_fetch_bytes")))
            try:
                runner.run(_assign(consumer, assigned, "earliest"))
                return AiokafkaReader(runner, consumer, None).read(count)
            finally:
                runner.run(consumer.stop())

    def offset_for_time(self, broker: Broker, topic: str, timestamp: int) -> int | None:
        """offsets_for_times."""
        partition = TopicPartition(topic, 0)

        async def ask() -> int | None:
            consumer = await _start_consumer(broker)
            try:
                found = (await consumer.offsets_for_times({partition: timestamp}))[partition]
                return None if found is None else int(found.offset)
            finally:
                await consumer.stop()

        return asyncio.run(ask())

    def ends(self, broker: Broker, topic: str) -> tuple[int, int]:
        """beginning_offsets and end_offsets."""
        partition = TopicPartition(topic, 0)

        async def ask() -> tuple[int, int]:
            consumer = await _start_consumer(broker)
            try:
                first, end = await consumer.beginning_offsets([partition]), await consumer.end_offsets([partition])
                return first[partition], end[partition]
            finally:
                await consumer.stop()

        return asyncio.run(ask())


async def _start_consumer(broker: Broker, **settings: object) -> Any:
    consumer = AIOKafkaConsumer(
        bootstrap_servers=broker.bootstrap_servers, group_id=None, enable_auto_commit=False, auto_offset_reset="none", **settings
    )
    await consumer.start()
    return consumer


async def _assign(consumer: Any, partitions: Sequence[Any], start: Start) -> None:
    consumer.assign(partitions)
    if start == "earliest":
        await consumer.seek_to_beginning(*partitions)
    elif start == "latest":
        await consumer.seek_to_end(*partitions)
    else:
        for partition in partitions:
            consumer.seek(partition, start)
