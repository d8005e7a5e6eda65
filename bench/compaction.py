"""Compaction: how fast a log with many old values is cleaned, and whether another client feels it.

A topic is filled with keyed messages (each key many times) under `cleanup.policy=delete`; then the policy becomes `compact`. Cleaning
begins when the broker starts to read (a cleaner first reads all keys, long before it writes) and has ended when
`cleaner-offset-checkpoint` says that everything below the active segment is clean: Kafka's own file, so one observer serves both peers.
MB are those that were dirty at the start.

The other client produces to a topic of its own, one message at a time, at a steady pace; its p99 while the cleaner runs is compared
with its p99 just before.
"""

import struct
import time
from collections.abc import Callable
from pathlib import Path
from random import Random
from threading import Event, Thread
from time import monotonic, perf_counter, sleep

from confluent_kafka.admin import AdminClient, AlterConfigOpType, ConfigEntry, ConfigResource, ResourceType  # type: ignore[attr-defined]
from crc32c import crc32c

from bench.case import Bar, BenchError, Case, Context, Metric, Values
from bench.load import VALUE, build_frames, pump
from bench.measure import Stopwatch, bytes_read, percentile
from bench.peers.broker import Broker
from bench.raw import produce_error, produce_request
from bench.topics import create_topic

TOPIC, OTHER = "compacted", "beside"
KEYS = 20_000
BATCH_RECORDS = 200
PACE_SECONDS = 0.004
SEGMENT_BYTES = 16 << 20
IDLE_SECONDS = 5.0
BEGINNING_BYTES = 4_000_000
STARTS_WITHIN_SECONDS = 90.0
"""Both brokers look for work every `log.cleaner.backoff.ms`, 15 s by default."""
ENDS_WITHIN_SECONDS = 180.0


class Compaction(Case):
    """One size of dirty log."""

    isolated = True

    def __init__(self, megabytes: int, *, max_rounds: int = 2) -> None:
        self.megabytes = megabytes
        self.max_rounds = max_rounds
        self.name = f"compaction-{megabytes}MB"
        self.title = f"compaction of {megabytes} MB, {KEYS} keys"
        self.metrics = (
            Metric("speed", "MB/s", summary="max"),
            Metric("broker CPU", "s per 100 MB"),
            Metric("left over", "MB"),
            Metric("p99 of another client, idle", "ms"),
            Metric("p99 while it runs", "ms"),
            Metric("p99 while it runs / idle", "times", Bar(2.0, "at most", "value")),
        )

    def run(self, context: Context) -> Values:
        directory = context.directory / f"round-{context.round_number}"
        broker = context.peer.start(directory)
        try:
            return self._measure(broker, directory)
        finally:
            broker.kill()

    def _measure(self, broker: Broker, directory: Path) -> Values:
        create_topic(broker, OTHER)
        create_topic(broker, TOPIC, config={"segment.bytes": str(SEGMENT_BYTES), "min.cleanable.dirty.ratio": "0.01"})
        _fill(broker, self.megabytes * 1_000_000)
        partition = directory / f"{TOPIC}-0"
        pump(broker, build_frames(OTHER, partitions=1, records=1), requests=2_000)
        idle = Probe(broker)
        sleep(IDLE_SECONDS)
        idle_p99 = idle.stop()
        active = max(partition.glob("*.log"))
        dirty = sum(file.stat().st_size for file in partition.glob("*.log") if file != active)
        _compact(broker)
        read_before = bytes_read(broker.pid)
        _await(lambda: bytes_read(broker.pid) > read_before + BEGINNING_BYTES, "cleaning", seconds=STARTS_WITHIN_SECONDS)
        busy = Probe(broker)
        with Stopwatch(broker.pid) as watch:
            _await(lambda: _cleaned_up_to(directory) >= int(active.stem), "the end of cleaning", seconds=ENDS_WITHIN_SECONDS)
        busy_p99 = busy.stop()
        left = sum(file.stat().st_size for file in partition.glob("*.log") if file != active)
        return {
            "speed": dirty / 1e6 / watch.seconds,
            "broker CPU": watch.cpu * 100e6 / dirty,
            "left over": left / 1e6,
            "p99 of another client, idle": idle_p99,
            "p99 while it runs": busy_p99,
            "p99 while it runs / idle": busy_p99 / idle_p99,
        }


class Probe:
    """A client in a thread of its own that produces one message after the other at a steady pace."""

    def __init__(self, broker: Broker) -> None:
        self.durations: list[float] = []
        self.failure: BaseException | None = None
        self._is_over = Event()
        self._frame = build_frames(OTHER, partitions=1, records=1)[0]
        self._thread = Thread(target=self._run, args=(broker,))
        self._thread.start()

    def stop(self) -> float:
        """End it; its p99 in milliseconds."""
        self._is_over.set()
        self._thread.join()
        if self.failure is not None or not self.durations:
            raise BenchError(f"the other client failed: {self.failure}")
        return percentile(self.durations, 99)

    def _run(self, broker: Broker) -> None:
        try:
            with broker.connect() as connection:
                while not self._is_over.wait(PACE_SECONDS):
                    before = perf_counter()
                    if error := produce_error(connection.call(self._frame)):
                        raise BenchError(f"Produce answered error {error}")
                    self.durations.append((perf_counter() - before) * 1000)
        except (BenchError, OSError) as error:
            self.failure = error


def _fill(broker: Broker, size_bytes: int) -> None:
    random = Random(1)
    now_ms = time.time_ns() // 1_000_000
    batches = [_keyed_batch([b"key-%d" % random.randrange(KEYS) for _ in range(BATCH_RECORDS)], now_ms=now_ms) for _ in range(200)]
    frames = [produce_request(TOPIC, 0, batch=batch) for batch in batches]
    pump(broker, frames, requests=max(1, size_bytes // len(frames[0])))


def _keyed_batch(keys: list[bytes], *, now_ms: int) -> bytes:
    records = b"".join(_record(delta, key) for delta, key in enumerate(keys))
    tail = struct.pack(">hiqqqhii", 0, len(keys) - 1, now_ms, now_ms, -1, -1, -1, len(keys)) + records
    return struct.pack(">qiibI", 0, 4 + 1 + 4 + len(tail), -1, 2, crc32c(tail)) + tail


def _record(delta: int, key: bytes) -> bytes:
    body = b"\x00\x00" + _varint(delta) + _varint(len(key)) + key + _varint(len(VALUE)) + VALUE + b"\x00"
    return _varint(len(body)) + body


def _varint(number: int) -> bytes:
    """Zigzag, for numbers that are not negative."""
    rest, encoded = number << 1, bytearray()
    while rest > 0x7F:
        encoded.append(rest & 0x7F | 0x80)
        rest >>= 7
    encoded.append(rest)
    return bytes(encoded)


def _compact(broker: Broker) -> None:
    admin = AdminClient({"bootstrap.servers": broker.bootstrap_servers})
    entry = ConfigEntry("cleanup.policy", "compact", incremental_operation=AlterConfigOpType.SET)
    resource = ConfigResource(ResourceType.TOPIC, TOPIC, incremental_configs=[entry])
    admin.incremental_alter_configs([resource])[resource].result(30)


def _cleaned_up_to(directory: Path) -> int:
    """The first offset that is not clean, by the checkpoint: version, count, then `topic partition offset` lines."""
    try:
        lines = (directory / "cleaner-offset-checkpoint").read_text().splitlines()
    except OSError:
        return 0
    return next((int(line.split()[2]) for line in lines[2:] if line.split()[:2] == [TOPIC, "0"]), 0)


def _await(condition: Callable[[], bool], what: str, *, seconds: float) -> None:
    deadline = monotonic() + seconds
    while not condition():
        if monotonic() > deadline:
            raise BenchError(f"{what} did not come within {seconds:g} s")
        sleep(0.005)
