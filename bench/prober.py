"""A client that writes one record after the other to one partition and remembers when each was acknowledged, and by which node.

It looks for the leader again as soon as one refuses or is gone, without the back-offs of a full client: what it sees is the cluster's own
time to serve the partition again.
"""

import time
from collections.abc import Callable
from itertools import pairwise
from threading import Event, Thread
from types import TracebackType
from typing import NamedTuple, Self

from bench.case import BenchError
from bench.load import VALUE
from bench.peers.cluster import Cluster
from bench.raw import ALL_IN_SYNC, produce_error, produce_request, record_batch

PAUSE_SECONDS = 0.005


class Acknowledged(NamedTuple):
    """When (on the monotonic clock), and by whom."""

    at: float
    node_id: int


class Prober:
    """Writes from `with` until its end."""

    def __init__(self, cluster: Cluster, topic: str) -> None:
        self.acknowledged: list[Acknowledged] = []
        self._cluster, self._topic = cluster, topic
        self._is_over = Event()
        self._thread = Thread(target=self._write_until_over)
        batch = record_batch(1, value=VALUE, timestamp_ms=time.time_ns() // 1_000_000)
        self._frame = produce_request(topic, 0, batch=batch, acks=ALL_IN_SYNC)

    def __enter__(self) -> Self:
        self._thread.start()
        self.await_record(lambda _: True, seconds=30.0)
        return self

    def __exit__(self, kind: type[BaseException] | None, value: BaseException | None, traceback: TracebackType | None) -> None:
        self._is_over.set()
        self._thread.join()

    def await_other_leader(self, node_id: int, *, seconds: float) -> float:
        """When another node than this one acknowledged its first record."""
        return self.await_record(lambda record: record.node_id != node_id, seconds=seconds)

    def longest_gap(self) -> float:
        """The longest time without an acknowledgement, in seconds."""
        times = [record.at for record in self.acknowledged]
        return max(later - earlier for earlier, later in pairwise(times))

    def await_record(self, is_it: Callable[[Acknowledged], bool], *, seconds: float) -> float:
        """When the first record like this was acknowledged."""
        deadline = time.monotonic() + seconds
        seen = 0
        while time.monotonic() < deadline:
            records = self.acknowledged[seen:]
            found = next((record.at for record in records if is_it(record)), None)
            if found is not None:
                return found
            seen += len(records)
            time.sleep(PAUSE_SECONDS)
        raise BenchError(f"{self._topic} could not be written to within {seconds:g} s")

    def _write_until_over(self) -> None:
        while not self._is_over.is_set():
            try:
                self._write_to(self._cluster.leader(self._topic, 0))
            except (OSError, BenchError):
                time.sleep(PAUSE_SECONDS)

    def _write_to(self, leader: int) -> None:
        with self._cluster.connect_to(leader) as connection:
            while not self._is_over.is_set():
                if error := produce_error(connection.call(self._frame)):
                    raise BenchError(f"Produce answered error {error}")
                self.acknowledged.append(Acknowledged(time.monotonic(), leader))
                time.sleep(PAUSE_SECONDS)
