"""Load that costs the client almost nothing: prebuilt Produce requests, pipelined over one raw connection.

librdkafka walks all its partitions each time it wakes, so with 1 000 of them it measures itself. Here the frames are built
before the clock starts and the client only sends and counts answers; what is measured is the broker.
"""

import time
from collections.abc import Iterable, Sequence
from itertools import cycle, islice

from bench.case import BenchError
from bench.peers.broker import Broker
from bench.peers.service import Service
from bench.raw import RawConnection, produce_error, produce_request, record_batch

VALUE = bytes(range(200))
WINDOW = 32
"""Requests unanswered at a time: enough to keep a broker busy, and their answers always fit into the socket's buffer, so nobody blocks."""


def build_frames(topic: str, *, partitions: int, records: int, acks: int = 1) -> list[bytes]:
    """One Produce request per partition, each with one batch of `records` 200-byte messages."""
    batch = record_batch(records, value=VALUE, timestamp_ms=time.time_ns() // 1_000_000)
    return [produce_request(topic, partition, batch=batch, acks=acks) for partition in range(partitions)]


def pump(broker: Broker, frames: Sequence[bytes], *, requests: int) -> None:
    """Send `requests` frames round robin and see every one answered without an error."""
    pump_all(broker, islice(cycle(frames), requests))


def pump_all(broker: Broker, frames: Iterable[bytes]) -> None:
    """Send these frames, and see every one answered without an error."""
    with broker.connect() as connection:
        _pump(connection, frames)


def fill(service: Service, topic: str, *, size_bytes: int, records: int = 200, acks: int = 1) -> int:
    """Write about `size_bytes` to partition 0 in batches of `records` messages; how many messages that were."""
    frames = build_frames(topic, partitions=1, records=records, acks=acks)
    requests = max(1, size_bytes // len(frames[0]))
    with service.connect_to_leader(topic, 0) as connection:
        _pump(connection, islice(cycle(frames), requests))
    return requests * records


def _pump(connection: RawConnection, frames: Iterable[bytes]) -> None:
    in_flight = 0
    for frame in frames:
        connection.socket.sendall(frame)
        in_flight += 1
        if in_flight == WINDOW:
            _check(connection.read_answer())
            in_flight -= 1
    for _ in range(in_flight):
        _check(connection.read_answer())


def _check(answer: bytes) -> None:
    if error := produce_error(answer):
        raise BenchError(f"Produce answered error {error}")
