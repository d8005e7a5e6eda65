"""Claims 28 and 29: a checksum with every batch, recovery that removes what is damaged, messages that come back with their broker.

A CRC finds errors of the network and of the disk. After a crash a recovery process removes messages whose CRC is wrong. A broker that goes
down takes its messages with it until it is back.
"""

from kio.schema.errors import ErrorCode

from tests.batches import encode_batch, split_batches
from tests.brokers import Broker, StartBroker
from tests.topics import create_topic, fetch, list_offset, produce, produce_values, read_all


def test_batch_damaged_on_the_network_is_refused(broker: Broker, topic: str) -> None:
    batch = bytearray(encode_batch([b"some value"]))
    with broker.connect() as connection:
        for position in range(21, len(batch)):
            damaged = batch.copy()
            damaged[position] ^= 0x01
            assert produce(connection, topic, bytes(damaged)).error_code == ErrorCode.corrupt_message
        assert list_offset(connection, topic, -1).offset == 0


def test_stored_batches_carry_the_crc_of_their_producer(broker: Broker, topic: str) -> None:
    batch = encode_batch([b"a", b"b"])
    with broker.connect() as connection:
        assert produce(connection, topic, batch).error_code == ErrorCode.none
        ((stored, _),) = split_batches(fetch(connection, topic, 0).records)
    ((sent, _),) = split_batches(batch)
    assert stored.crc == sent.crc


def test_recovery_after_a_crash_removes_messages_with_a_wrong_crc(start_broker: StartBroker) -> None:
    broker = start_broker()
    topic = create_topic(broker)
    produce_values(broker, topic, [b"%d" % number for number in range(10)], batch_size=1)
    broker.kill()
    (segment,) = broker.partition_directory(topic).glob("*.log")
    content = bytearray(segment.read_bytes())
    content[-3] ^= 0xFF
    segment.write_bytes(content)
    broker.start()
    assert [record.value for record in read_all(broker, topic)] == [b"%d" % number for number in range(9)]
    produce_values(broker, topic, [b"goes on"])
    assert read_all(broker, topic)[-1].offset == 9


def test_messages_come_back_with_their_broker(start_broker: StartBroker) -> None:
    broker = start_broker()
    topic = create_topic(broker, partitions=2)
    for partition in range(2):
        produce_values(broker, topic, [b"%d" % partition] * 10, partition=partition)
    broker.restart()
    for partition in range(2):
        assert [record.value for record in read_all(broker, topic, partition=partition)] == [b"%d" % partition] * 10
