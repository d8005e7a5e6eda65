"""Idempotent producers with acks=all, each a thread of its own, that write down what they sent and what was acknowledged.

A value is `producer sequence` and padding. Nothing that failed is sent again: the client's own retries are what is tried here. A producer
that ended with a fatal error is replaced by one of another name, so that each name counts its sequence numbers once.
"""

import threading
import time
import traceback
from functools import partial

from confluent_kafka import KafkaError, KafkaException, Message, Producer

from tests.cluster.faults.checker import Stored
from tests.cluster.faults.history import SOMEWHERE, History, ProducerHistory

VALUE_BYTES = 100
MAX_OUTSTANDING = 5_000
FLUSH_DEADLINE_S = 120.0
_PAUSE_S = 0.01


def value_of(producer: str, sequence: int) -> bytes:
    """What a record carries."""
    return f"{producer} {sequence} ".encode().ljust(VALUE_BYTES, b".")


def stored(offset: int, value: bytes) -> Stored:
    """The record in a value that was read back."""
    producer, sequence, _ = value.split(b" ", 2)
    return Stored(offset, producer.decode(), int(sequence))


class LoadProducer(threading.Thread):
    """Sends at a steady rate, round robin over the partitions, until it is asked to end; then waits for what is under way."""

    def __init__(self, number: int, history: History, *, bootstrap_servers: str, topic: str, partitions: int, rate: float) -> None:
        super().__init__(name=f"producer-{number}", daemon=True)
        self._number = number
        self._history = history
        self._topic = topic
        self._partitions = partitions
        self._rate = rate
        self._bootstrap_servers = bootstrap_servers
        self._life = 0
        self._is_fatal = False
        self._asked_to_end = threading.Event()
        self._connect()

    def end(self) -> None:
        """Send nothing more."""
        self._asked_to_end.set()

    def run(self) -> None:
        try:
            self._send_until_asked_to_end()
            left = self._producer.flush(FLUSH_DEADLINE_S)
            if left:
                self._history.failed(f"{left} records of {self._own_name} without an answer")
        except Exception:  # noqa: BLE001 - there is no caller to raise it to
            self._history.crashes.append(traceback.format_exc())

    def _send_until_asked_to_end(self) -> None:
        began, count = time.monotonic(), 0
        while not self._asked_to_end.is_set():
            due = int((time.monotonic() - began) * self._rate) - count
            count += max(due, 0)
            if len(self._producer) < MAX_OUTSTANDING:
                for _ in range(due):
                    self._send()
            self._producer.poll(_PAUSE_S)
            if self._is_fatal:
                self._producer.flush(FLUSH_DEADLINE_S)
                self._connect()

    def _connect(self) -> None:
        self._own_name = f"p{self._number}.{self._life}"
        self._life += 1
        self._own = self._history.producers[self._own_name] = ProducerHistory()
        self._is_fatal = False
        self._producer = Producer(
            {
                "bootstrap.servers": self._bootstrap_servers,
                "client.id": self._own_name,
                "enable.idempotence": True,
                "acks": "all",
                "linger.ms": 5,
                "message.timeout.ms": 300_000,
                # Shorter than the defaults, so that a silent broker is given up within the time of a test.
                "request.timeout.ms": 5_000,
                "socket.timeout.ms": 10_000,
                "reconnect.backoff.max.ms": 1_000,
                "error_cb": self._note_error,
                "log_level": 0,
            }
        )

    def _send(self) -> None:
        partition = len(self._own.partitions) % self._partitions
        sequence = self._own.sent(partition)
        answer = partial(self._answered, self._own_name, sequence)
        try:
            self._producer.produce(self._topic, value_of(self._own_name, sequence), partition=partition, on_delivery=answer)
        except (BufferError, KafkaException) as error:
            self._history.failed(f"not sent: {error}")

    def _answered(self, name: str, sequence: int, error: KafkaError | None, message: Message) -> None:
        if error is None:
            offset = message.offset()
            if offset is None or offset < 0:
                self._history.failed("acknowledged without an offset")
                offset = SOMEWHERE
            self._history.acknowledged(name, sequence, offset=offset)
        else:
            self._history.failed(f"not acknowledged: {error.name()}")
            self._is_fatal |= error.fatal()

    def _note_error(self, error: KafkaError) -> None:
        if error.fatal():
            self._history.failed(f"fatal: {error.name()} {error.str()}")
            self._is_fatal = True
