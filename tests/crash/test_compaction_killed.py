"""Brokers and cleaner processes that are killed while they compact: no latest value is lost, and no cleaner outlives its broker."""

import os
import random
import signal
from functools import partial
from pathlib import Path

import pytest

from tests.brokers import IS_KAFKA, Broker, StartBroker
from tests.clients.client import Message
from tests.clients.confluent_client import ConfluentClient
from tests.topics import LATEST, create_topic, list_offset
from tests.waiting import wait_until

pytestmark = pytest.mark.skipif(IS_KAFKA, reason="it looks at the processes of Millstream")

COMPACTED = {"cleanup.policy": "compact", "internal.segment.bytes": 200_000, "min.cleanable.dirty.ratio": "0.01"}
KEYS = 200


def cleaners_of(pid: int) -> list[int]:
    try:
        children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
        return [int(child) for child in children if b"cleaner_process" in Path(f"/proc/{child}/cmdline").read_bytes()]
    except (FileNotFoundError, ProcessLookupError):
        return []


def is_dead(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().split()[2] == "Z"
    except (FileNotFoundError, ProcessLookupError):
        return True


def write_updates(broker: Broker, topic: str, latest: dict[bytes, bytes], *, seed: int) -> None:
    order = random.Random(seed)
    messages = [Message(b"%d-%d" % (seed, number) * 40, key=b"key%d" % order.randrange(KEYS)) for number in range(1500)]
    with ConfluentClient().writer(broker) as writer:
        for start in range(0, len(messages), 100):
            writer.write(topic, messages[start : start + 100])
    for message in messages:
        assert message.key is not None
        assert message.value is not None
        latest[message.key] = message.value


def check_latest(broker: Broker, topic: str, latest: dict[bytes, bytes]) -> int:
    """Every key has its latest value; how many records there are."""
    with ConfluentClient().writer(broker) as writer:
        writer.write(topic, [Message(b"", key=b"end")])
    found: dict[bytes | None, bytes | None] = {}
    offsets: list[int] = []
    with ConfluentClient().reader(broker, topic) as reader:
        with broker.connect() as connection:
            end = list_offset(connection, topic, LATEST).offset
        while not offsets or offsets[-1] < end - 1:
            message = reader.read(1)[0]
            found[message.key] = message.value
            offsets.append(message.offset)
    assert offsets == sorted(set(offsets))
    found.pop(b"end")
    assert found == latest
    return len(offsets)


def test_broker_killed_while_it_compacts_loses_nothing(start_broker: StartBroker) -> None:
    broker = start_broker(log_cleaner_backoff_ms=20, log_segment_delete_delay_ms=100)
    topic = create_topic(broker, configs=COMPACTED)
    latest: dict[bytes, bytes] = {}
    for life in range(6):
        write_updates(broker, topic, latest, seed=life)
        cleaners = wait_until(lambda: cleaners_of(broker.pid), "a cleaner")
        broker.kill()
        for cleaner in cleaners:
            wait_until(partial(is_dead, cleaner), "the end of the cleaner")
        broker.start()
        check_latest(broker, topic, latest)
    wait_until(lambda: check_latest(broker, topic, latest) < 4 * 1500, "compaction")
    partition = broker.partition_directory(topic)
    wait_until(lambda: not [*partition.glob("*.cleaned"), *partition.glob("*.swap"), *partition.glob("*.deleted")], "leftovers to go")


def test_cleaner_killed_again_and_again_does_no_harm(start_broker: StartBroker) -> None:
    broker = start_broker(log_cleaner_backoff_ms=20)
    topic = create_topic(broker, configs=COMPACTED)
    latest: dict[bytes, bytes] = {}
    for seed in range(6):
        write_updates(broker, topic, latest, seed=seed)
        for cleaner in wait_until(lambda: cleaners_of(broker.pid), "a cleaner"):
            os.kill(cleaner, signal.SIGKILL)
        check_latest(broker, topic, latest)
    wait_until(lambda: check_latest(broker, topic, latest) < 4 * 1500, "compaction")
    assert broker.is_running
