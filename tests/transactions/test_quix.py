"""Quix Streams in exactly-once mode: a windowed count that survives kills of the program.

Quix Streams 3 wants other versions of confluent-kafka and pydantic than we do, so `scripts/setup test` makes an environment of its own
for it.
"""

import json
import threading
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from time import time

import pytest
from confluent_kafka import Producer

from tests.brokers import Broker, make_broker
from tests.repeated_process import ROOT
from tests.topics import create_topic, fresh_name
from tests.transactions.committed import read_committed
from tests.transactions.killed_process import KilledProcess
from tests.waiting import wait_until

PYTHON = ROOT / ".cache" / "quixstreams" / "bin" / "python"
PROGRAM = Path(__file__).with_name("quix_app.py")
KEYS = 3
STEP_MS = 500
MINUTE_MS = 60_000
GOES_ON_S = 120.0

pytestmark = [
    pytest.mark.skipif(not PYTHON.exists(), reason="no Quix Streams in .cache/quixstreams: scripts/setup test could not install it"),
    pytest.mark.timeout(400),
]


@pytest.fixture
def own_broker(tmp_path: Path) -> Iterator[Broker]:
    broker = make_broker(tmp_path / "broker", {"transaction.state.log.num.partitions": 3, "group.initial.rebalance.delay.ms": 0})
    broker.start()
    yield broker
    broker.kill()


class Events:
    """Messages whose times go on by half a second each, written a few at a time until it is closed."""

    def __init__(self, brokers: str, topic: str) -> None:
        self.count = 0
        self._topic = topic
        self._start_ms = int(time() * 1000) // MINUTE_MS * MINUTE_MS - 60 * MINUTE_MS
        self._producer = Producer({"bootstrap.servers": brokers, "enable.idempotence": True, "log_level": 0})
        self._is_over = threading.Event()
        self._thread = threading.Thread(target=self._write, daemon=True)
        self._thread.start()

    def close(self) -> None:
        self._is_over.set()
        self._thread.join()
        assert self._producer.flush(GOES_ON_S) == 0

    def expected(self) -> dict[tuple[bytes, int], int]:
        """How many there are of each key in each window."""
        counts: dict[tuple[bytes, int], int] = defaultdict(int)
        for number in range(self.count):
            moment = self._start_ms + number * STEP_MS
            counts[b"key %d" % (number % KEYS), moment // MINUTE_MS * MINUTE_MS] += 1
        return counts

    def _write(self) -> None:
        while not self._is_over.wait(0.1):
            for _ in range(5):
                moment = self._start_ms + self.count * STEP_MS
                self._producer.produce(self._topic, json.dumps({"time": moment}).encode(), b"key %d" % (self.count % KEYS))
                self.count += 1


def updates(broker: Broker, target: str) -> dict[tuple[bytes, int], list[int]]:
    """Every count that was published of a key and window, in order."""
    found: dict[tuple[bytes, int], list[int]] = defaultdict(list)
    for message in read_committed(broker.bootstrap_servers, target):
        window = json.loads(message.payload or b"null")
        found[message.key or b"", window["start"]].append(window["value"])
    return found


def published(broker: Broker, target: str) -> int:
    return sum(map(len, updates(broker, target).values()))


def test_a_windowed_count_is_right_after_kills(own_broker: Broker, tmp_path: Path) -> None:
    source, target = (create_topic(own_broker, partitions=2) for _ in range(2))
    command = [str(PYTHON), str(PROGRAM), own_broker.bootstrap_servers, source, target, fresh_name("quix"), str(tmp_path / "state")]
    events = Events(own_broker.bootstrap_servers, source)
    with KilledProcess(command, tmp_path / "quix.txt") as program:
        for _ in range(2):
            await_more(own_broker, target, program)
            program.kill()
            program.start()
        await_more(own_broker, target, program)
        events.close()
        wait_until(lambda: published(own_broker, target) >= events.count, f"all counted: {program.output}", deadline_s=GOES_ON_S)
    # Each message gives one count more than the one before it: none was lost, and none counted twice.
    assert updates(own_broker, target) == {place: list(range(1, count + 1)) for place, count in events.expected().items()}


def await_more(broker: Broker, target: str, program: KilledProcess) -> None:
    before = published(broker, target)
    wait_until(lambda: published(broker, target) > before + 10, f"more than {before} counts: {program.output}", deadline_s=GOES_ON_S)
