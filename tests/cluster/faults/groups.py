"""Consuming groups that commit what they have processed, of the classic protocol and of KIP-848, and one who asks what they committed.

Every commit that was acknowledged and every answer about one is written down. A member commits only what it was given since its partitions
were assigned to it last, so a commit that goes back was caused by a broker.
"""

import threading
import time
import traceback
from collections import Counter
from collections.abc import Iterable, Mapping
from math import inf

from confluent_kafka import Consumer, KafkaError, KafkaException, TopicPartition

from tests.cluster.faults.history import Commit, History

COMMIT_INTERVAL_S = 0.5
OBSERVE_INTERVAL_S = 1.0
ASK_TIMEOUT_S = 10.0
_POLL_S = 0.1
GROUPS = {"classic-group": "classic", "consumer-group": "consumer"}
"""The groups of every run and their protocols."""


class GroupMember(threading.Thread):
    """One consumer of a group."""

    def __init__(self, group: str, number: int, history: History, *, bootstrap_servers: str, topic: str) -> None:
        super().__init__(name=f"{group}-{number}", daemon=True)
        self.group = self._group = group
        self._topic = topic
        self._history = history
        self._positions: dict[int, int] = {}
        self._asked: dict[tuple[int, int], float] = {}
        """When a commit of a partition and offset was asked for first."""
        self._unanswered: Counter[tuple[int, int]] = Counter()
        self._acknowledged: dict[tuple[int, int], Commit] = {}
        self._asked_to_end = threading.Event()
        protocol: dict[str, str | int] = {"group.protocol": GROUPS[group]}
        if GROUPS[group] == "classic":
            protocol |= {"session.timeout.ms": 10_000, "heartbeat.interval.ms": 1_000}
        own = {"client.id": self.name, "on_commit": self._committed}
        self._consumer = Consumer(_client_options(bootstrap_servers, group) | protocol | own)

    def end(self) -> None:
        """Leave."""
        self._asked_to_end.set()

    def run(self) -> None:
        try:
            self._consumer.subscribe([self._topic], on_assign=self._forget, on_revoke=self._forget, on_lost=self._forget)
            committed_at = time.monotonic()
            while not self._asked_to_end.is_set():
                self._process_one()
                if time.monotonic() > committed_at + COMMIT_INTERVAL_S:
                    self._commit()
                    committed_at = time.monotonic()
            self._write_down()
            self._consumer.close()
        except Exception:  # noqa: BLE001 - a thread has nobody else to report to
            self._history.crashes.append(traceback.format_exc())

    @property
    def has_committed(self) -> bool:
        return bool(self._acknowledged)

    def _process_one(self) -> None:
        message = self._consumer.poll(_POLL_S)
        if message is None:
            return
        error, partition, offset = message.error(), message.partition(), message.offset()
        if error is not None or partition is None or offset is None:
            self._history.failed(f"consume: {error}")
            return
        self._history.was_delivered(self._group, partition, offset)
        self._positions[partition] = offset + 1

    def _commit(self) -> None:
        """Ask for it and go on: a commit that waits in this thread would keep it from polling for as long as there is no coordinator."""
        if not self._positions:
            return
        wanted = [TopicPartition(self._topic, partition, offset) for partition, offset in self._positions.items()]
        began = time.monotonic()
        for partition, offset in self._positions.items():
            self._asked.setdefault((partition, offset), began)
            self._unanswered[partition, offset] += 1
        try:
            self._consumer.commit(offsets=wanted, asynchronous=True)
        except KafkaException as error:
            self._history.failed(f"commit: {error.args[0].name()}")

    def _committed(self, error: KafkaError | None, partitions: list[TopicPartition]) -> None:
        if error is not None:
            self._history.failed(f"commit: {error.name()}")
            return
        ended = time.monotonic()
        for one in partitions:
            began = self._asked.get((one.partition, one.offset))
            if one.error is None and began is not None:
                self._unanswered[one.partition, one.offset] -= 1
                self._acknowledged[one.partition, one.offset] = Commit(self._group, one.partition, one.offset, began, ended)

    def _write_down(self) -> None:
        for (partition, offset), began in self._asked.items():
            attempt = Commit(self._group, partition, offset, began, inf)
            if not self._unanswered[partition, offset]:
                attempt = self._acknowledged.get((partition, offset), attempt)
            self._history.commits.append(attempt)

    def _forget(self, _: Consumer, partitions: list[TopicPartition]) -> None:
        for one in partitions:
            self._positions.pop(one.partition, None)


class GroupObserver(threading.Thread):
    """Asks again and again what the groups have committed."""

    def __init__(self, history: History, *, bootstrap_servers: str, topic: str, partitions: int) -> None:
        super().__init__(name="observer", daemon=True)
        self._history = history
        self._partitions = [TopicPartition(topic, partition) for partition in range(partitions)]
        self._consumers = {group: Consumer(_client_options(bootstrap_servers, group)) for group in GROUPS}
        self._asked_to_end = threading.Event()

    def end(self) -> None:
        """Ask no more."""
        self._asked_to_end.set()

    def run(self) -> None:
        try:
            while not self._asked_to_end.wait(OBSERVE_INTERVAL_S):
                for group in self._consumers:
                    self.observe(group)
            for consumer in self._consumers.values():
                consumer.close()
        except Exception:  # noqa: BLE001 - a thread has nobody else to report to
            self._history.crashes.append(traceback.format_exc())

    def observe(self, group: str) -> Mapping[int, int]:
        """Committed offsets of a group by partition; 0 where there is none, empty if there was no answer."""
        began = time.monotonic()
        try:
            answers = self._consumers[group].committed(self._partitions, timeout=ASK_TIMEOUT_S)
        except KafkaException as error:
            self._history.failed(f"committed: {error.args[0].name()}")
            return {}
        ended = time.monotonic()
        found = {one.partition: max(one.offset, 0) for one in answers if one.error is None}
        self._history.observed += [Commit(group, partition, offset, began, ended) for partition, offset in found.items()]
        return found


def read_back(bootstrap_servers: str, topic: str, partitions: Iterable[int], *, deadline_s: float) -> dict[int, list[tuple[int, bytes]]]:
    """Every record of these partitions, from the start to the end as it is now, as offsets and values."""
    consumer = Consumer(_client_options(bootstrap_servers, "read-back") | {"enable.partition.eof": True})
    found: dict[int, list[tuple[int, bytes]]] = {partition: [] for partition in partitions}
    left = set(found)
    consumer.assign([TopicPartition(topic, partition, 0) for partition in found])
    end = time.monotonic() + deadline_s
    try:
        while left:
            if time.monotonic() > end:
                raise AssertionError(f"partitions {sorted(left)} of {topic} could not be read to their ends within {deadline_s:g} s")
            for message in consumer.consume(1000, _POLL_S):
                partition, offset, value = message.partition(), message.offset(), message.value()
                if partition is None:
                    continue
                error = message.error()
                if error is not None and error.code() == KafkaError._PARTITION_EOF:
                    left.discard(partition)
                elif error is None and offset is not None and value is not None:
                    found[partition].append((offset, value))
    finally:
        consumer.close()
    return found


def _client_options(bootstrap_servers: str, group: str) -> dict[str, str | int | bool]:
    return {
        "bootstrap.servers": bootstrap_servers,
        "group.id": group,
        "enable.auto.commit": False,
        "enable.auto.offset.store": False,
        "auto.offset.reset": "earliest",
        "socket.timeout.ms": 10_000,
        "reconnect.backoff.max.ms": 1_000,
        "log_level": 0,
    }
