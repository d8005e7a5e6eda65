"""Transactional batches and markers, well and badly sent: Millstream answers each of them as Apache Kafka 4.2 does."""

from itertools import takewhile

import pytest

from tests.brokers import Broker
from tests.connection import DELETE_RECORDS
from tests.differential.pair import Pair
from tests.differential.random_transactions import PARTITIONS, RandomTransactions
from tests.topics import create_topic
from tests.transactional_wire import IMPLICIT, Conversation, Granted, Sent, await_coordinator

OLD_END, NEW_END = 4, 5
PLAIN = 0


def batches(talk: Conversation, version: int) -> None:
    """A transaction with everything that can be wrong with its batches, and what comes after it."""
    name = f"{talk.topic}-batches"
    producer_id, epoch = talk.begin(name)

    def batch(partition: int, sequence: int, *, epoch: int = epoch, producer_id: int = producer_id, flags: int = 0x10) -> Sent:
        return Sent(partition, producer_id, epoch, sequence, flags)

    plain = Sent(2, flags=PLAIN)
    talk.produce("no transactional id", None, batch(0, 0), version=version)
    talk.produce("no transactional id, beside a plain batch", None, batch(0, 0), plain, version=version)
    talk.produce("no transactional id, beside an unknown partition", None, batch(0, 0), Sent(9, flags=PLAIN), version=version)
    talk.produce("a transactional id for a plain batch", name, plain, version=version)
    talk.produce("two producers", name, batch(0, 0), batch(1, 0, producer_id=producer_id + 77), plain, version=version)
    talk.produce("two epochs", name, batch(0, 0), batch(1, 0, epoch=epoch + 1), version=version)
    talk.produce("no producer", name, Sent(0), version=version)
    talk.produce("no producer, no transactional id", None, Sent(0), version=version)
    talk.produce("an unknown transactional id", name + "?", batch(0, 0), version=version)
    talk.produce("an empty transactional id", "", batch(0, 0), version=version)
    talk.produce("a later epoch", name, batch(0, 0, epoch=epoch + 3), version=version)
    talk.produce("the producer of another", name, batch(0, 0, producer_id=producer_id + 55), version=version)
    if version < IMPLICIT:
        talk.produce("not begun", name, batch(0, 0), version=version)
        talk.add(name, Granted(producer_id, epoch), 0)
        talk.produce("one partition of two", name, batch(0, 0), batch(1, 0), version=version)
    else:
        talk.produce("an unknown producer begins in the middle", name, batch(0, 5), version=version)
        talk.produce("two partitions", name, batch(0, 0), batch(1, 0), version=version)
    talk.produce("once more", name, batch(0, 0), version=version)
    talk.produce("the next", name, batch(0, 1), version=version)
    talk.produce("a gap", name, batch(0, 3), version=version)
    talk.produce("not in the transaction that is open", name, batch(0, 2, flags=PLAIN), version=version)
    talk.produce("beside an unknown partition", name, batch(0, 2), batch(9, 2), version=version)
    talk.produce("in an open one without its id", None, batch(0, 3), version=version)
    talk.produce("in an open one with another id", name + "?", batch(0, 3), version=version)
    talk.describe("the producer in its transaction")
    talk.read("nothing of it")
    now = talk.end(name, Granted(producer_id, epoch), version=NEW_END if version >= IMPLICIT else OLD_END)
    talk.describe("the producer after it")
    talk.read("all of it")
    talk.produce("one that was sent before the end", name, batch(0, 3), version=version)
    talk.produce("one that comes after the end", name, batch(0, 4), version=version)
    if version >= IMPLICIT:
        talk.produce("another epoch begins in the middle", name, batch(0, 3, epoch=now.epoch), version=version)
        talk.produce("another epoch", name, batch(0, 0, epoch=now.epoch), version=version)
        talk.produce("the last epoch", name, batch(0, 4), version=version)
        talk.describe("the producer in its next transaction")
        talk.end(name, now, version=NEW_END, is_commit=False)
        talk.read("what was aborted")


def interleaved(talk: Conversation, version: int) -> None:
    """Two producers and one without transactions; records before an open transaction are deleted."""
    names = [f"{talk.topic}-{number}" for number in (1, 2)]
    producers = [talk.begin(name) for name in names]
    for name, producer in zip(names, producers, strict=True):
        if version < IMPLICIT:
            talk.add(name, producer, 3)
        talk.produce("the first", name, Sent(3, *producer, 0), version=version)
    talk.produce("plain", None, Sent(3, flags=PLAIN), version=version)
    talk.read("both are open", 3)
    delete = {"topics": [{"name": talk.topic, "partitions": [{"partition_index": 3, "offset": 1}]}], "timeout_ms": 30_000}
    talk.note("delete", talk.ask(DELETE_RECORDS, 1, **delete).topics[0].partitions[0].low_watermark)
    talk.read("the first record of an open transaction is deleted", 3, offset=1)
    talk.end(names[1], producers[1], version=OLD_END, is_commit=False)
    talk.read("the second is aborted", 3, offset=1)
    talk.end(names[0], producers[0], version=OLD_END, is_commit=False)
    for offset in (1, 2, 3):
        talk.read("both are", 3, offset=offset)
    talk.describe("both producers", 3)


def markers(talk: Conversation, version: int) -> None:
    """Markers as anybody may send them who is allowed to."""
    name = f"{talk.topic}-markers"
    talk.begin(name)
    producer_id, epoch = producer = talk.begin(name)
    if version < IMPLICIT:
        talk.add(name, producer, 0, 1)
    talk.produce("the first", name, Sent(0, producer_id, epoch, 0), Sent(1, producer_id, epoch, 0), version=version)
    talk.mark("an unknown partition", producer, 9)
    talk.mark("an earlier epoch", Granted(producer_id, epoch - 1), 0)
    talk.mark("an aborted transaction", producer, 0, is_commit=False, coordinator_epoch=7)
    talk.mark("once more", producer, 0, is_commit=False, coordinator_epoch=7)
    talk.mark("an earlier coordinator", producer, 0, is_commit=False, coordinator_epoch=6)
    talk.mark("the same epoch by the rules of version 2", producer, 1, version=2, transaction_version=2)
    talk.mark("another epoch by the rules of version 2", Granted(producer_id, epoch + 1), 1, version=2, transaction_version=2)
    talk.mark("once more by the rules of version 2", Granted(producer_id, epoch + 1), 1, version=2, transaction_version=2)
    talk.mark("an unknown producer", Granted(777_777_777, 3), 0)
    talk.describe("the producers")
    talk.read("what was aborted by hand")
    talk.read("what was committed by hand", 1)


def conversation(broker: Broker, topic: str, version: int) -> list[tuple[str, object]]:
    create_topic(broker, name=topic, partitions=4)
    await_coordinator(broker, topic)
    with broker.connect() as connection:
        talk = Conversation(connection, topic)
        batches(talk, version)
        interleaved(talk, version)
        markers(talk, version)
    return talk.noted


@pytest.mark.parametrize("version", [3, 10, 11, 12])
def test_transactional_batches_are_answered_as_by_kafka(pair: Pair, version: int) -> None:
    topic = f"transactional-{version}"
    kafka, ours = (conversation(side.broker, topic, version) for side in (pair.kafka, pair.ours))
    different = [(theirs, own) for theirs, own in zip(kafka, ours, strict=True) if theirs != own]
    assert not different, "\n".join(f"{theirs[0]}: Kafka {theirs[1]}, ours {own[1]}" for theirs, own in different)


def random_conversation(broker: Broker, topic: str, seed: int, steps: int) -> list[tuple[str, object]]:
    create_topic(broker, name=topic, partitions=PARTITIONS)
    await_coordinator(broker, topic)
    with broker.connect() as connection:
        talk = Conversation(connection, topic)
        transactions = RandomTransactions(talk, seed)
        for _ in range(steps):
            transactions.step()
    return talk.noted


@pytest.mark.timeout(900)
def test_random_transactional_producers_are_answered_as_by_kafka(pair: Pair, seed: int, steps: int) -> None:
    kafka, ours = (random_conversation(side.broker, f"random-transactions-{seed}", seed, steps) for side in (pair.kafka, pair.ours))
    same = sum(1 for _ in takewhile(lambda both: both[0] == both[1], zip(kafka, ours, strict=False)))
    before = "\n".join(f"{title}: {answer}" for title, answer in kafka[max(same - 12, 0) : same])
    assert kafka == ours, f"step {same}: Kafka {kafka[same : same + 1]}, ours {ours[same : same + 1]}, after\n{before}"
