"""The raw producer against a real broker: nothing lost, nothing doubled, whatever breaks on the way; and clear errors in bounded time."""

import random
import threading
from dataclasses import replace
from functools import partial
from time import monotonic

import numpy as np
import pyarrow as pa
import pytest

from millstream.arrow.binary_columns import Rows, binary_column, no_headers, null_column
from millstream.arrow.kernels.batch_kernels import row_sizes
from millstream.client.errors import BrokerUnavailable, DeliveryFailed
from millstream.client.raw_producer import ProducerSettings, RawProducer
from millstream.spark.sink.batch_encoding import BatchPacker, OpenBatch
from millstream.spark.sink.producer_options import Compression
from millstream.spark.worker_connections import borrow_producer
from millstream.topic_partition import TopicPartition
from millstream.wire.compression import Codec
from tests.brokers import Broker, StartBroker
from tests.spark.cutting_socket import Breaks
from tests.topics import create_topic, delete_topic, fresh_name, read_all

PARTITIONS = 3
TIME_MS = 1_700_000_000_000


def settings_for(broker: Broker, **changes: object) -> ProducerSettings:
    quick = ProducerSettings(
        broker.bootstrap_servers,
        batch_size=2_000,
        request_timeout_ms=5_000,
        delivery_timeout_ms=60_000,
        retry_backoff_ms=5,
        max_block_ms=30_000,
        option_prefix="kafka.",
    )
    return replace(quick, **changes)  # type: ignore[arg-type]


def append(producer: RawProducer, place: TopicPartition, batch: OpenBatch, *, codec: Codec = Codec.NONE) -> None:
    seal = partial(batch.seal, compression=Compression(codec), timestamp_ms=TIME_MS)
    producer.append(place, seal, record_count=batch.record_count, size_bytes=batch.end)


def write(
    producer: RawProducer,
    topic: str,
    values: list[bytes],
    *,
    partitions: int = PARTITIONS,
    is_known: bool = False,
    codec: Codec = Codec.NONE,
) -> None:
    """Write values one after the other to the partitions by turns, in batches of the producer's size."""
    rows = Rows(null_column(len(values)), binary_column(pa.array(values)), no_headers(), False)
    packer = BatchPacker(batch_size=producer.settings.batch_size, buffer_memory=1 << 20)
    placed = np.arange(len(values)) % partitions
    if not is_known:
        producer.topic(topic)
    for place, batch in packer.pack(topic, rows, sizes=row_sizes(rows), partitions=placed, partition_count=partitions):
        append(producer, place, batch, codec=codec)
    for place, batch in packer.drain():
        append(producer, place, batch, codec=codec)
    producer.flush()


def values_of(broker: Broker, topic: str, partition: int) -> list[bytes | None]:
    return [record.value for record in read_all(broker, topic, partition=partition)]


def numbered(count: int) -> list[bytes]:
    return [b"%06d" % number for number in range(count)]


@pytest.mark.parametrize("seed", range(6))
def test_nothing_is_lost_or_doubled_when_connections_break(broker: Broker, seed: int) -> None:
    topic = create_topic(broker, partitions=PARTITIONS)
    generator = random.Random(seed)
    breaks = Breaks(sends=set(generator.sample(range(5, 60), 6)), receives=set(generator.sample(range(4, 30), 8)))
    values = numbered(6_000)
    producer = RawProducer(settings_for(broker), open_socket=breaks.open)
    write(producer, topic, values)
    producer.close()
    assert breaks.broken >= 6
    for partition in range(PARTITIONS):
        assert values_of(broker, topic, partition) == values[partition::PARTITIONS]


def test_a_broker_that_restarts_is_waited_for(start_broker: StartBroker) -> None:
    broker = start_broker()
    topic = create_topic(broker, partitions=PARTITIONS)
    values = numbered(30_000)
    producer = RawProducer(settings_for(broker))
    write(producer, topic, values[:300])
    broker.kill()
    restart = threading.Thread(target=broker.start)
    restart.start()
    write(producer, topic, values[300:])
    restart.join()
    producer.close()
    for partition in range(PARTITIONS):
        assert values_of(broker, topic, partition) == values[partition::PARTITIONS]


@pytest.mark.parametrize("codec", [Codec.NONE, Codec.GZIP])
def test_batches_larger_than_the_topic_takes_are_split_and_those_that_follow_made_smaller(broker: Broker, codec: Codec) -> None:
    topic = create_topic(broker, configs={"max.message.bytes": 3_000})
    producer = RawProducer(settings_for(broker, batch_size=100_000))
    values = [random.Random(number).randbytes(40) for number in range(3_000)]
    write(producer, topic, values, partitions=1, codec=codec)
    producer.close()
    assert values_of(broker, topic, 0) == values if codec == Codec.NONE else len(values_of_any_codec(broker, topic)) == 3_000
    assert producer.batch_size <= 6_000


def values_of_any_codec(broker: Broker, topic: str) -> list[bytes | None]:
    from millstream.wire.batch import split_batches
    from millstream.wire.records import decode_records
    from tests.topics import fetch

    values: list[bytes | None] = []
    with broker.connect() as connection:
        while records := fetch(connection, topic, len(values), max_wait_ms=10).records:
            values += [record.value for _, batch in split_batches(records) for record in decode_records(batch)]
    return values


def test_one_record_larger_than_the_topic_takes_names_the_option(broker: Broker) -> None:
    topic = create_topic(broker, configs={"max.message.bytes": 3_000})
    producer = RawProducer(settings_for(broker, batch_size=100_000))
    with pytest.raises(DeliveryFailed, match=rf"a record for {topic}-0 is too large for the topic: .*Raise max.message.bytes of the topic"):
        write(producer, topic, [b"small", b"x" * 5_000], partitions=1)
    producer.close()


def test_a_topic_that_is_not_there_is_named_after_a_bounded_wait(start_broker: StartBroker) -> None:
    broker = start_broker(auto_create_topics_enable="false")
    producer = RawProducer(settings_for(broker, max_block_ms=300))
    begun = monotonic()
    with pytest.raises(DeliveryFailed, match=r"there is no topic 'nowhere' at .*create it first, or check the name"):
        producer.topic("nowhere")
    assert monotonic() - begun < 5
    producer.close()


def test_a_topic_is_created_where_brokers_do_that(broker: Broker) -> None:
    producer = RawProducer(settings_for(broker))
    name = fresh_name()
    assert list(producer.topic(name).partitions) == [0]
    producer.close()


def test_a_name_that_no_topic_can_have_is_refused_at_once(broker: Broker) -> None:
    producer = RawProducer(settings_for(broker, max_block_ms=30_000))
    begun = monotonic()
    with pytest.raises(DeliveryFailed, match="'not a name' is not the name of a topic"):
        producer.topic("not a name")
    assert monotonic() - begun < 5
    producer.close()


def test_brokers_that_are_not_there_are_an_error_after_a_bounded_wait() -> None:
    producer = RawProducer(ProducerSettings("127.0.0.1:1", max_block_ms=200, option_prefix="kafka."))
    with pytest.raises(DeliveryFailed, match=r"no broker described the topic 'orders' within kafka.max.block.ms = 200: no broker answers"):
        producer.topic("orders")


def test_a_broker_that_stays_away_ends_the_wait_with_the_reason(start_broker: StartBroker) -> None:
    broker = start_broker()
    topic = create_topic(broker, partitions=PARTITIONS)
    producer = RawProducer(settings_for(broker, request_timeout_ms=500, delivery_timeout_ms=700))
    write(producer, topic, numbered(10))
    broker.kill()
    begun = monotonic()
    with pytest.raises(DeliveryFailed, match=r"were not written within kafka.delivery.timeout.ms = 700: no broker answers"):
        write(producer, topic, numbered(1_000), is_known=True)
    assert monotonic() - begun < 10


def test_no_retry_is_made_when_none_is_allowed(broker: Broker) -> None:
    topic = create_topic(broker)
    breaks = Breaks(receives={4})
    producer = RawProducer(settings_for(broker, is_idempotent=False, retries=0), open_socket=breaks.open)
    with pytest.raises(DeliveryFailed, match=r"no retry is left: the connection to .* broke"):
        write(producer, topic, numbered(2_000), partitions=1)
    producer.close()


@pytest.mark.parametrize("acks", [-1, 0, 1])
def test_every_acks_writes(broker: Broker, acks: int) -> None:
    topic = create_topic(broker)
    producer = RawProducer(settings_for(broker, acks=acks, is_idempotent=False))
    write(producer, topic, numbered(500), partitions=1)
    producer.cluster.refresh([topic])  # the answer comes after all that was sent before it
    assert values_of(broker, topic, 0) == numbered(500)
    producer.close()


def test_a_producer_is_used_again_after_success_and_not_after_failure(broker: Broker) -> None:
    topic = create_topic(broker)
    settings = settings_for(broker, client_id=fresh_name())
    with borrow_producer(settings) as first:
        write(first, topic, numbered(10), partitions=1)
    with borrow_producer(settings) as second:
        write(second, topic, numbered(10), partitions=1)
    assert second is first
    with pytest.raises(ZeroDivisionError), borrow_producer(settings) as third:
        raise ZeroDivisionError
    with borrow_producer(settings) as fourth:
        write(fourth, topic, numbered(10), partitions=1)
    assert third is first
    assert fourth is not first
    fourth.close()
    assert values_of(broker, topic, 0) == numbered(10) * 3


def test_a_topic_may_be_made_anew_and_get_partitions_between_two_tasks(broker: Broker) -> None:
    topic = create_topic(broker)
    settings = settings_for(broker, client_id=fresh_name())
    with borrow_producer(settings) as producer:
        write(producer, topic, numbered(10), partitions=1)
    delete_topic(broker, topic)
    create_topic(broker, name=topic, partitions=2)
    with borrow_producer(settings) as producer:
        assert len(producer.topic(topic).partitions) == 2
        write(producer, topic, numbered(10), partitions=2)
    producer.close()
    assert values_of(broker, topic, 0) == numbered(10)[::2]


def test_a_leader_that_is_nowhere_is_waited_for(broker: Broker) -> None:
    topic = create_topic(broker)
    producer = RawProducer(settings_for(broker, delivery_timeout_ms=300))
    producer.topic(topic)
    rows = Rows(null_column(1), binary_column(pa.array([b"x"])), no_headers(), False)
    packer = BatchPacker(batch_size=100, buffer_memory=1)
    ((_, batch),) = packer.pack(topic, rows, sizes=row_sizes(rows), partitions=np.zeros(1, dtype=np.int64), partition_count=1)
    append(producer, TopicPartition(topic, 7), batch)
    with pytest.raises(DeliveryFailed, match=f"records for {topic}-7 were not written within .*partition 7 has no leader"):
        producer.flush()
    producer.close()


def test_without_a_broker_there_is_no_producer_id() -> None:
    producer = RawProducer(ProducerSettings("127.0.0.1:1", max_block_ms=100))
    packer = BatchPacker(batch_size=100, buffer_memory=1)
    rows = Rows(null_column(1), binary_column(pa.array([b"x"])), no_headers(), False)
    ((place, batch),) = packer.pack("t", rows, sizes=row_sizes(rows), partitions=np.zeros(1, dtype=np.int64), partition_count=1)
    with pytest.raises(BrokerUnavailable):
        append(producer, place, batch)
