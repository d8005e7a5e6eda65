"""The power fails: the file system forgets what was not synced, the broker is gone, and the disk comes back as its journal left it.

With `flush.messages=1` every acknowledged message was synced and is still there. Without it what remains is a whole prefix of what was
written: never a damaged message, never a hole.
"""

import pytest

from tests.brokers import Broker, StartBroker
from tests.clients.test_idempotence import new_producer_id, send
from tests.crash.load import assert_nothing_acknowledged_is_lost, under_load
from tests.crash.loop_disk import LoopDisk
from tests.topics import create_topic, produce_values, read_all, topic_id


def lose_power(broker: Broker, disk: LoopDisk) -> None:
    """Cut the power and bring disk and broker back."""
    disk.cut_power()
    broker.kill()
    disk.unmount()
    disk.mount()
    broker.start()


@pytest.fixture
def powered(loop_disk: LoopDisk, start_broker: StartBroker) -> Broker:
    """A broker on the disk whose power can be cut; it ends before the disk is unmounted, because it is asked for after it."""
    return start_broker(data=loop_disk.path / "data")


@pytest.mark.parametrize("acks", [-1, 1])
def test_nothing_acknowledged_is_lost_when_every_message_is_flushed(powered: Broker, loop_disk: LoopDisk, acks: int) -> None:
    topic = create_topic(powered, configs={"flush.messages": 1})
    with under_load(powered, topic, acks=acks) as load:
        load.wait_for(300)
        load.stop_counting()
        loop_disk.cut_power()
        powered.kill()
    loop_disk.unmount()
    loop_disk.mount()
    powered.start()
    assert len(load.acknowledged) >= 300
    assert_nothing_acknowledged_is_lost(powered, topic, load)


def test_flushed_messages_survive_while_segments_roll(powered: Broker, loop_disk: LoopDisk) -> None:
    topic = create_topic(powered, configs={"flush.messages": 1, "segment.bytes": 1 << 20})
    with under_load(powered, topic, value_bytes=20_000) as load:
        load.wait_for(150)
        load.stop_counting()
        loop_disk.cut_power()
        powered.kill()
    loop_disk.unmount()
    loop_disk.mount()
    powered.start()
    assert_nothing_acknowledged_is_lost(powered, topic, load)


def test_what_was_not_flushed_is_a_whole_prefix(powered: Broker, loop_disk: LoopDisk) -> None:
    topic = create_topic(powered)
    values: list[bytes | None] = [b"%d" % number for number in range(3000)]
    produce_values(powered, topic, values, batch_size=7)
    lose_power(powered, loop_disk)
    found = [record.value for record in read_all(powered, topic)]
    assert found == values[: len(found)]
    produce_values(powered, topic, [b"goes on"])
    assert read_all(powered, topic)[-1].value == b"goes on"


def test_answered_creation_of_a_topic_survives(powered: Broker, loop_disk: LoopDisk) -> None:
    topics = {name: topic_id(powered, name) for name in (create_topic(powered) for _ in range(5))}
    lose_power(powered, loop_disk)
    assert {name: topic_id(powered, name) for name in topics} == topics
    for name in topics:
        produce_values(powered, name, [b"usable"])


def test_sequences_of_flushed_batches_survive(powered: Broker, loop_disk: LoopDisk) -> None:
    topic = create_topic(powered, configs={"flush.messages": 1})
    with powered.connect() as connection:
        producer = new_producer_id(connection)
        for sequence in range(5):
            assert send(connection, topic, producer, sequence) == (0, sequence)
    lose_power(powered, loop_disk)
    with powered.connect() as connection:
        assert send(connection, topic, producer, 4) == (0, 4)
        assert send(connection, topic, producer, 5) == (0, 5)
        assert new_producer_id(connection) != producer


def test_clean_stop_flushes_everything(powered: Broker, loop_disk: LoopDisk) -> None:
    topic = create_topic(powered)
    values: list[bytes | None] = [b"%d" % number for number in range(1000)]
    produce_values(powered, topic, values)
    powered.stop()
    loop_disk.cut_power()
    loop_disk.unmount()
    loop_disk.mount()
    powered.start()
    assert [record.value for record in read_all(powered, topic)] == values
