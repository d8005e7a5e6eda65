"""aiokafka at work, on an event loop of its own in the worker's thread."""

import asyncio
from typing import Any

from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, TopicPartition

from tests.cluster.failover.worker import PAUSE_S, ThreadWorker


class AiokafkaProducer(ThreadWorker):
    """With acks=1, by default."""

    is_producer = True

    def __init__(self, name: str, topic: str, bootstrap_servers: str, **settings: object) -> None:
        super().__init__(name, topic)
        self.is_idempotent = self.keeps_all = bool(settings.get("enable_idempotence"))
        self._settings = {"bootstrap_servers": bootstrap_servers, **settings}

    def work(self) -> None:
        asyncio.run(self._work())

    async def _work(self) -> None:
        producer = AIOKafkaProducer(**self._settings)
        await producer.start()
        answers: list[asyncio.Future[None]] = []
        while self.is_wanted:
            number = len(answers)
            sent = await producer.send(self.topic, b"%d" % number, partition=number % 3)
            answers.append(asyncio.ensure_future(self._answered(number, sent)))
            await asyncio.sleep(PAUSE_S)
        await asyncio.gather(*answers)
        await producer.stop()

    async def _answered(self, number: int, sent: Any) -> None:
        try:
            metadata = await sent
        except Exception as error:  # noqa: BLE001 - whatever it reports
            self.errors.append(f"not acknowledged: {error!r}")
        else:
            self.noted(metadata.partition, metadata.offset, number)


class AiokafkaConsumer(ThreadWorker):
    """A member of a group, or one who assigns for itself, where there is no group."""

    is_producer = False

    def __init__(self, name: str, topic: str, bootstrap_servers: str, *, group: str | None, **options: Any) -> None:
        super().__init__(name, topic)
        self._settings = {"bootstrap_servers": bootstrap_servers, "group_id": group, "auto_offset_reset": "earliest", **options}

    def work(self) -> None:
        asyncio.run(self._work())

    async def _work(self) -> None:
        consumer = AIOKafkaConsumer(**self._settings)
        await consumer.start()
        if self._settings["group_id"] is None:
            consumer.assign([TopicPartition(self.topic, partition) for partition in range(3)])
        else:
            consumer.subscribe([self.topic])
        while self.is_wanted:
            for records in (await consumer.getmany(timeout_ms=100)).values():
                for record in records:
                    self.noted(record.partition, record.offset, int(record.value))
        await consumer.stop()
