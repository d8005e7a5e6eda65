"""Producers that write as fast as they are answered and remember exactly what was acknowledged."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager

from tests.batches import encode_batch
from tests.brokers import Broker
from tests.connection import ConnectionEnded
from tests.topics import produce, read_all
from tests.waiting import wait_until

BATCH = 3


class Load:
    """Several writers, each with a connection of its own, each writing numbered values to its partition."""

    def __init__(self, broker: Broker, topic: str, *, writers: int, partitions: int, acks: int, value_bytes: int) -> None:
        self._broker = broker
        self._topic = topic
        self._acks = acks
        self._partitions = partitions
        self._padding = bytes(value_bytes)
        self._is_over = threading.Event()
        self._counts = True
        self.refusals: list[int] = []
        self.acknowledged: dict[tuple[int, int], bytes] = {}
        """(partition, offset) -> value, for every message whose answer came back without an error."""
        self._threads = [threading.Thread(target=self._write, args=(writer,), daemon=True) for writer in range(writers)]

    def start(self) -> None:
        for thread in self._threads:
            thread.start()

    def wait_for(self, count: int) -> None:
        """Wait until so many messages are acknowledged, or nobody writes any more."""
        wait_until(lambda: len(self.acknowledged) >= count or not self._is_writing(), f"{count} acknowledged")

    def stop_counting(self) -> None:
        """No answer that comes from now on is remembered as an acknowledgement, because the power is about to be cut.

        ext4's shutdown is not quite a power cut: an fsync that is under way at that moment may return without an error though its journal
        was given up (a loop of write and fsync alone, without a broker, loses such a write in one of twenty cuts, and never one that was
        synced before). A machine without power answers nobody.
        """
        self._counts = False

    def join(self) -> None:
        """Wait until the writers have noticed the end."""
        self._is_over.set()
        for thread in self._threads:
            thread.join(timeout=60)
            assert not thread.is_alive()

    def _is_writing(self) -> bool:
        return any(thread.is_alive() for thread in self._threads)

    def _write(self, writer: int) -> None:
        partition, number = writer % self._partitions, 0
        try:
            with self._broker.connect() as connection:
                while not self._is_over.is_set():
                    values: list[bytes | None] = [b"%d:%d:" % (writer, number + index) + self._padding for index in range(BATCH)]
                    answer = produce(connection, self._topic, encode_batch(values), partition=partition, acks=self._acks)
                    if answer.error_code != 0:
                        self.refusals.append(answer.error_code)
                        return
                    if self._counts:
                        self.acknowledged |= {(partition, answer.base_offset + index): value or b"" for index, value in enumerate(values)}
                    number += BATCH
        except (OSError, ConnectionEnded):
            return


@contextmanager
def under_load(
    broker: Broker, topic: str, *, writers: int = 4, partitions: int = 1, acks: int = -1, value_bytes: int = 100
) -> Iterator[Load]:
    """Writers that run until the block ends or the broker does."""
    load = Load(broker, topic, writers=writers, partitions=partitions, acks=acks, value_bytes=value_bytes)
    load.start()
    try:
        yield load
    finally:
        load.join()


def assert_nothing_acknowledged_is_lost(broker: Broker, topic: str, load: Load, *, partitions: int = 1) -> int:
    """Each acknowledged message is at its offset, each writer's messages are in order without a gap; returns how many there are."""
    total = 0
    for partition in range(partitions):
        records = read_all(broker, topic, partition=partition)
        total += len(records)
        assert [record.offset for record in records] == list(range(len(records)))
        by_offset = {record.offset: record.value for record in records}
        for (where, offset), value in load.acknowledged.items():
            if where == partition:
                assert by_offset.get(offset) == value, f"acknowledged message {value[:20]!r} is not at offset {offset}"
        numbers: dict[bytes, list[int]] = {}
        for record in records:
            writer, number, _ = (record.value or b"").split(b":", 2)
            numbers.setdefault(writer, []).append(int(number))
        for sequence in numbers.values():
            assert sequence == list(range(len(sequence)))
    return total
