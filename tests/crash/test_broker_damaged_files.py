"""A real broker's files, damaged while it is down: it starts, serves every batch before the damage, and appends after it.

One broker with a partition per kind of damage, so that a single restart shows them all.
"""

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.batches import split_batches
from tests.brokers import Broker, StartBroker
from tests.topics import create_topic, produce_values, read_all

BATCHES = 6
LAST = 5
"""Offset of the last batch: each batch holds one message."""


def segment(folder: Path) -> Path:
    return max(folder.glob("*.log"))


def change(folder: Path, edit: Callable[[bytearray, int], bytearray]) -> None:
    """Rewrite the last segment; `edit` gets its bytes and the position of the last batch."""
    file = segment(folder)
    content = file.read_bytes()
    (*_, (_, last)) = split_batches(content)
    file.write_bytes(edit(bytearray(content), len(content) - len(last)))


def flip(content: bytearray, position: int) -> bytearray:
    content[position] ^= 0xFF
    return content


def remove(pattern: str) -> Callable[[Path], None]:
    def damage(folder: Path) -> None:
        for file in folder.glob(pattern):
            file.unlink()

    return damage


def overwrite(pattern: str, content: bytes) -> Callable[[Path], None]:
    def damage(folder: Path) -> None:
        for file in folder.glob(pattern):
            file.write_bytes(content)

    return damage


TAIL: dict[str, tuple[Callable[[Path], None], int]] = {
    "nothing": (lambda folder: None, BATCHES),
    "last byte cut": (lambda folder: change(folder, lambda content, last: content[:-1]), LAST),
    "cut in the last header": (lambda folder: change(folder, lambda content, last: content[: last + 30]), LAST),
    "cut to the size field": (lambda folder: change(folder, lambda content, last: content[: last + 12]), LAST),
    "one byte of the last batch": (lambda folder: change(folder, lambda content, last: content[: last + 1]), LAST),
    "cut between batches": (lambda folder: change(folder, lambda content, last: content[:last]), LAST),
    "value flipped": (lambda folder: change(folder, lambda content, last: flip(content, len(content) - 2)), LAST),
    "CRC flipped": (lambda folder: change(folder, lambda content, last: flip(content, last + 17)), LAST),
    "length flipped": (lambda folder: change(folder, lambda content, last: flip(content, last + 8)), LAST),
    "base offset flipped": (lambda folder: change(folder, flip), LAST),
    "magic flipped": (lambda folder: change(folder, lambda content, last: flip(content, last + 16)), LAST),
    "last batch zeroed": (lambda folder: change(folder, lambda content, last: content[:last] + bytes(len(content) - last)), LAST),
    "zeros appended": (lambda folder: change(folder, lambda content, last: content + bytes(5000)), BATCHES),
    "garbage appended": (lambda folder: change(folder, lambda content, last: content + b"\xa5" * 777), BATCHES),
    "last batch twice": (lambda folder: change(folder, lambda content, last: content + content[last:]), BATCHES),
    "first batch flipped": (lambda folder: change(folder, lambda content, last: flip(content, 70)), 0),
    "log emptied": (lambda folder: change(folder, lambda content, last: bytearray()), 0),
}
ASIDE: dict[str, Callable[[Path], None]] = {
    "no offset index": remove("*.index"),
    "no time index": remove("*.timeindex"),
    "empty indexes": overwrite("*index", b""),
    "indexes of garbage": overwrite("*index", b"\xa5" * 84),
    "no producer snapshots": remove("*.snapshot"),
    "snapshots of garbage": overwrite("*.snapshot", b"\xa5" * 50),
    "no leader epochs": remove("leader-epoch-checkpoint"),
    "leader epochs of garbage": overwrite("leader-epoch-checkpoint", b"garbage\n"),
}


def make_partitions(broker: Broker, count: int) -> str:
    topic = create_topic(broker, partitions=count)
    for partition in range(count):
        produce_values(broker, topic, [b"value %d" % number for number in range(BATCHES)], partition=partition, batch_size=1)
    return topic


def assert_holds(broker: Broker, topic: str, partition: int, count: int, what: str) -> None:
    """The first `count` values are served, and appending goes on behind them."""
    produce_values(broker, topic, [b"after"], partition=partition)
    values = [record.value for record in read_all(broker, topic, partition=partition)]
    assert values == [b"value %d" % number for number in range(count)] + [b"after"], what


def test_damaged_tail_is_cut_at_the_first_bad_batch(start_broker: StartBroker) -> None:
    broker = start_broker()
    topic = make_partitions(broker, len(TAIL))
    broker.kill()
    for partition, (damage, _) in enumerate(TAIL.values()):
        damage(broker.partition_directory(topic, partition))
    broker.start()
    for partition, (what, (_, count)) in enumerate(TAIL.items()):
        assert_holds(broker, topic, partition, count, what)


@pytest.mark.parametrize("how", ["killed", "stopped"])
def test_files_beside_the_log_are_made_anew_when_they_are_missing_or_damaged(start_broker: StartBroker, how: str) -> None:
    broker = start_broker()
    topic = make_partitions(broker, len(ASIDE))
    if how == "killed":
        broker.kill()
    else:
        broker.stop()
    for partition, damage in enumerate(ASIDE.values()):
        damage(broker.partition_directory(topic, partition))
    broker.start()
    for partition, what in enumerate(ASIDE):
        assert_holds(broker, topic, partition, BATCHES, what)


@pytest.mark.parametrize("content", [None, b"", b"garbage\n", b"0\n999999\n"], ids=["missing", "empty", "garbage", "wrong count"])
@pytest.mark.parametrize("how", ["killed", "stopped"])
def test_damaged_checkpoints_of_the_directory_lose_no_messages(start_broker: StartBroker, content: bytes | None, how: str) -> None:
    broker = start_broker()
    topic = make_partitions(broker, 2)
    if how == "killed":
        broker.kill()
    else:
        broker.stop()
    for name in ("recovery-point-offset-checkpoint", "log-start-offset-checkpoint", "replication-offset-checkpoint"):
        file = broker.data / name
        if content is None:
            file.unlink(missing_ok=True)
        elif file.exists():
            file.write_bytes(content)
    broker.start()
    for partition in range(2):
        assert_holds(broker, topic, partition, BATCHES, "checkpoints")


def test_leftovers_of_a_crash_are_cleared_away(start_broker: StartBroker) -> None:
    broker = start_broker()
    topic = make_partitions(broker, 1)
    broker.kill()
    folder = broker.partition_directory(topic)
    for name in ("00000000000000000000.log.deleted", "00000000000000000003.log.cleaned", "leader-epoch-checkpoint.tmp"):
        (folder / name).write_bytes(b"left over")
    (broker.data / "recovery-point-offset-checkpoint.tmp").write_bytes(b"left over")
    broker.start()
    assert_holds(broker, topic, 0, BATCHES, "leftovers")
