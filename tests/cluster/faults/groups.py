"""Consuming groups that commit what they have processed, of the classic protocol and of KIP-848, and one who asks what they committed.

Every commit and every answer about one is written down, with a label that goes with the offset as its metadata. A member commits only what
it was given since its partitions were assigned to it last, and asks for a commit only when the one before was answered: librdkafka keeps
commits for which it finds no coordinator and, when there is one again, sends the newest first and the older ones after it. What a group
committed then goes back on any broker, Apache Kafka 4.2 included.
"""

import threading
import time
import traceback
from collections import defaultdict
from collections.abc import Iterable, Mapping
from math import inf
from typing import NamedTuple

from confluent_kafka import Consumer, KafkaError, KafkaException, TopicPartition

from tests.cluster.faults.history import Commit, History

COMMIT_INTERVAL_S = 0.5
OBSERVE_INTERVAL_S = 1.0
ASK_TIMEOUT_S = 10.0
ANSWER_DEADLINE_S = 90.0
"""A commit that has had no answer for so long will not get one; it may take effect all the same."""
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
        self._number = 0
        self._asked_at = -inf
        """When the commit that is under way was asked for; minus infinity if none is."""
        self._attempts: dict[tuple[str, int], Commit] = {}
        self._releases: dict[int, list[float]] = defaultdict(list)
        self.has_committed = False
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
            self._subscribe()
            committed_at = time.monotonic()
            while not self._asked_to_end.is_set():
                self._process_one()
                if time.monotonic() > committed_at + COMMIT_INTERVAL_S:
                    self._commit()
                    committed_at = time.monotonic()
            self._write_down()
            self._consumer.close()
        except Exception:  # noqa: BLE001 - there is no caller to raise it to
            self._history.crashes.append(traceback.format_exc())

    def _subscribe(self) -> None:
        self._consumer.subscribe([self._topic], on_assign=self._forget, on_revoke=self._give_up, on_lost=self._give_up)

    def _process_one(self) -> None:
        message = self._consumer.poll(_POLL_S)
        if message is None:
            return
        error, partition, offset = message.error(), message.partition(), message.offset()
        if error is not None or partition is None or offset is None:
            self._history.failed(f"consume: {error}")
            if error is not None and "committed offsets" in error.str():
                # librdkafka does not fetch the offsets of this assignment again (its issue 5586), so it has to get another one.
                self._consumer.unsubscribe()
                self._subscribe()
            return
        self._history.was_delivered(self._group, partition, offset)
        self._positions[partition] = offset + 1

    def _commit(self) -> None:
        """Ask for it and go on: a commit that waits in this thread would keep it from polling for as long as there is no coordinator."""
        began = time.monotonic()
        if not self._positions or self._asked_at > began - ANSWER_DEADLINE_S:
            return
        self._number += 1
        label = f"{self.name}/{self._number}"
        for partition, offset in self._positions.items():
            self._attempts[label, partition] = Commit(self._group, partition, offset, label, began, inf)
        self._asked_at = began
        try:
            wanted = [TopicPartition(self._topic, partition, offset, label) for partition, offset in self._positions.items()]
            self._consumer.commit(offsets=wanted, asynchronous=True)
        except KafkaException as error:
            self._asked_at = -inf
            self._history.failed(f"commit: {error.args[0].name()}")

    def _committed(self, error: KafkaError | None, partitions: list[TopicPartition]) -> None:
        self._asked_at = -inf
        if error is not None:
            self._history.failed(f"commit: {error.name()}")
            return
        ended = time.monotonic()
        for one in partitions:
            if one.error is None and one.metadata is not None:
                key = (one.metadata, one.partition)
                self._attempts[key] = self._attempts[key]._replace(ended=ended)
                self.has_committed = True

    def _write_down(self) -> None:
        for attempt in self._attempts.values():
            released = next((time for time in self._releases[attempt.partition] if time >= attempt.began), inf)
            self._history.commits.append(attempt._replace(released=released))

    def _give_up(self, consumer: Consumer, partitions: list[TopicPartition]) -> None:
        now = time.monotonic()
        for one in partitions:
            self._releases[one.partition].append(now)
        self._forget(consumer, partitions)

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
        except Exception:  # noqa: BLE001 - there is no caller to raise it to
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
        good = [one for one in answers if one.error is None]
        self._history.observed += [Commit(group, one.partition, max(one.offset, 0), one.metadata or "", began, ended) for one in good]
        return {one.partition: max(one.offset, 0) for one in good}


class ReadRecord(NamedTuple):
    """A record as a consumer got it."""

    offset: int
    key: bytes | None
    value: bytes | None


def read_back(bootstrap_servers: str, topic: str, partitions: Iterable[int], *, deadline_s: float) -> dict[int, list[ReadRecord]]:
    """Every record of these partitions, from the start to the end as it is now."""
    consumer = Consumer(_client_options(bootstrap_servers, "read-back") | {"enable.partition.eof": True})
    found: dict[int, list[ReadRecord]] = {partition: [] for partition in partitions}
    left = set(found)
    consumer.assign([TopicPartition(topic, partition, 0) for partition in found])
    end = time.monotonic() + deadline_s
    try:
        while left:
            if time.monotonic() > end:
                raise AssertionError(f"partitions {sorted(left)} of {topic} could not be read to their ends within {deadline_s:g} s")
            for message in consumer.consume(1000, _POLL_S):
                partition, offset = message.partition(), message.offset()
                if partition is None:
                    continue
                error = message.error()
                if error is not None and error.code() == KafkaError._PARTITION_EOF:
                    left.discard(partition)
                elif error is None and offset is not None:
                    found[partition].append(ReadRecord(offset, _bytes(message.key()), _bytes(message.value())))
    finally:
        consumer.close()
    return found


def _bytes(data: str | bytes | None) -> bytes | None:
    return data.encode() if isinstance(data, str) else data


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
