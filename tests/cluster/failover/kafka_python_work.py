"""kafka-python at work."""

import warnings
from functools import partial
from typing import Any

from tests.cluster.failover.worker import ThreadWorker

with warnings.catch_warnings():
    warnings.simplefilter("ignore", DeprecationWarning)  # it reads its schemas with importlib.resources.read_text
    from kafka import KafkaConsumer, KafkaProducer, TopicPartition


class KafkaPythonProducer(ThreadWorker):
    """Idempotent with acks=all, by default."""

    is_producer = True

    def __init__(self, name: str, topic: str, bootstrap_servers: str, **settings: object) -> None:
        super().__init__(name, topic)
        self.is_idempotent = self.keeps_all = settings.get("acks", -1) == -1
        self._settings = {"bootstrap_servers": bootstrap_servers, **settings}

    def work(self) -> None:
        producer = KafkaProducer(**self._settings)
        number = 0
        while self.is_wanted:
            sent = producer.send(self.topic, b"%d" % number, partition=number % 3)
            sent.add_callback(partial(self._acknowledged, number))
            sent.add_errback(lambda error: self.errors.append(f"not acknowledged: {error!r}"))
            number += 1
            self.pause()
        producer.close()

    def _acknowledged(self, number: int, metadata: Any) -> None:
        self.noted(metadata.partition, metadata.offset, number)


class KafkaPythonConsumer(ThreadWorker):
    """A member of a group, or one who assigns for itself, where there is no group."""

    is_producer = False

    def __init__(self, name: str, topic: str, bootstrap_servers: str, *, group: str | None, **options: Any) -> None:
        super().__init__(name, topic)
        self._settings = {"bootstrap_servers": bootstrap_servers, "group_id": group, "auto_offset_reset": "earliest", **options}

    def work(self) -> None:
        consumer = KafkaConsumer(**self._settings)
        if self._settings["group_id"] is None:
            consumer.assign([TopicPartition(self.topic, partition) for partition in range(3)])
        else:
            # Its leader divides what its metadata has; elected before it has any it gives out nothing, and may never ask again.
            consumer.partitions_for_topic(self.topic)
            consumer.subscribe([self.topic])
        while self.is_wanted:
            for records in consumer.poll(timeout_ms=100).values():
                for record in records:
                    self.noted(record.partition, record.offset, int(record.value))
        consumer.close()
