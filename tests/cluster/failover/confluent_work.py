"""confluent-kafka (librdkafka) at work."""

from functools import partial
from typing import Any

from confluent_kafka import OFFSET_BEGINNING, Consumer, Message, Producer, TopicPartition

from tests.cluster.failover.worker import END_DEADLINE_S, ThreadWorker

Settings = dict[str, str | int | bool]


class ConfluentProducer(ThreadWorker):
    """With acks=all, as librdkafka does it by default; what else there is stands in `settings`."""

    is_producer = True

    def __init__(self, name: str, topic: str, bootstrap_servers: str, **settings: str | bool) -> None:
        super().__init__(name, topic)
        self.is_idempotent = bool(settings.get("enable_idempotence"))
        self.keeps_all = settings.get("acks", "all") == "all"
        self._settings = _settings(bootstrap_servers, settings) | {"error_cb": self._note_fatal}

    def work(self) -> None:
        producer = Producer(self._settings)
        number = 0
        while self.is_wanted:
            producer.produce(self.topic, b"%d" % number, partition=number % 3, on_delivery=partial(self._answered, number))
            number += 1
            self.pause()
            producer.poll(0)
        if left := producer.flush(END_DEADLINE_S - 10):
            self.errors.append(f"{left} records without an answer")

    def _answered(self, number: int, error: Any, message: Message) -> None:
        if error is not None:
            self.errors.append(f"not acknowledged: {error}")
        else:
            partition, offset = message.partition(), message.offset()
            assert partition is not None
            self.noted(partition, -1 if offset is None else offset, number)

    def _note_fatal(self, error: Any) -> None:
        if error.fatal():
            self.errors.append(f"fatal: {error}")


class ConfluentConsumer(ThreadWorker):
    """A member of a group, or one who assigns for itself, where there is no group."""

    is_producer = False

    def __init__(self, name: str, topic: str, bootstrap_servers: str, *, group: str | None, **settings: str | bool) -> None:
        super().__init__(name, topic)
        self._is_member = group is not None
        own: Settings = {"group.id": group or "assigns-for-itself", "auto.offset.reset": "earliest"}
        self._settings = _settings(bootstrap_servers, settings) | own

    def work(self) -> None:
        consumer = Consumer(self._settings)
        if self._is_member:
            consumer.subscribe([self.topic])
        else:
            consumer.assign([TopicPartition(self.topic, partition, OFFSET_BEGINNING) for partition in range(3)])
        while self.is_wanted:
            message = consumer.poll(0.1)
            if message is None:
                continue
            error, partition, offset, value = message.error(), message.partition(), message.offset(), message.value()
            if error is not None:
                self.errors.append(f"poll: {error}")
            elif partition is not None and offset is not None and value is not None:
                self.noted(partition, offset, int(value))
        consumer.close()


def _settings(bootstrap_servers: str, settings: dict[str, str | bool]) -> dict[str, Any]:
    return {"bootstrap.servers": bootstrap_servers, "log_level": 0} | {name.replace("_", "."): value for name, value in settings.items()}
