"""A producer in the background: what is asked of a topic twice is not the same twice while it runs.

What it writes is `NOISE`, which the helpers of `tests.spark.reading` leave out, so that a test still knows what its rows are. A test that
counts offsets gives it a partition of its own.
"""

from threading import Event, Thread
from typing import Final, Self

from confluent_kafka import Producer

from tests.brokers import Broker
from tests.waiting import wait_until

NOISE: Final = "noise"


class Traffic:
    """Writes to one partition, about `per_second` messages a second, while the block runs."""

    def __init__(self, broker: Broker, topic: str, *, partition: int = 0, per_second: int = 100) -> None:
        self._producer = Producer({"bootstrap.servers": broker.bootstrap_servers, "linger.ms": 0})
        self._topic = topic
        self._partition = partition
        self._pause_s = 1 / per_second
        self._is_over = Event()
        self._thread = Thread(target=self._run, daemon=True)
        self._written = 0

    def __enter__(self) -> Self:
        self._thread.start()
        wait_until(lambda: self._written, "the first message in the background")
        return self

    def __exit__(self, *_: object) -> None:
        self._is_over.set()
        self._thread.join()
        assert self._producer.flush(60) == 0

    def _run(self) -> None:
        while not self._is_over.wait(self._pause_s):
            self._producer.produce(self._topic, NOISE.encode(), partition=self._partition, on_delivery=self._count)
            self._producer.poll(0)

    def _count(self, error: object, _: object) -> None:
        assert error is None, error
        self._written += 1
