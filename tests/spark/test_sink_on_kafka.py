"""The same sink against Apache Kafka, where its jars are: batches that it takes, sequences that it recognises, groups that it keeps."""

import random
from collections.abc import Iterator
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest
from pyspark.sql.pandas.types import from_arrow_schema

from millstream.client.raw_producer import RawProducer
from millstream.spark.sink.task_writer import write_rows
from millstream.spark.sink.write_plan import plan_write
from tests.brokers import Broker, KafkaBroker
from tests.spark.cutting_socket import Breaks
from tests.spark.read_back import read_with_confluent
from tests.spark.test_sink_producer import numbered, settings_for, write
from tests.spark.test_sink_stream import copy, forget_commit, source, values
from tests.topics import create_topic, produce_values

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@pytest.fixture(scope="module")
def kafka(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Broker]:
    broker = KafkaBroker(tmp_path_factory.mktemp("kafka"), {})
    broker.start()
    yield broker
    broker.stop()


@pytest.mark.parametrize("codec", ["none", "gzip", "snappy", "lz4", "zstd"])
def test_kafka_takes_batches_of_every_codec(kafka: Broker, codec: str) -> None:
    topic = create_topic(kafka, partitions=2)
    headers = pa.array([[("h", b"1")]] * 1000, type=pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())])))
    rows = pa.table(
        {"key": [str(number) for number in range(1000)], "value": [str(number) * 20 for number in range(1000)], "headers": headers}
    )
    options = {"kafka.bootstrap.servers": kafka.bootstrap_servers, "topic": topic, "kafka.compression.type": codec}
    write_rows(plan_write(options, from_arrow_schema(rows.schema)), iter(rows.to_batches()))
    found = sorted((int(message.key or b""), message.value, message.headers) for message in read_with_confluent(kafka, topic))
    assert found == [(number, str(number).encode() * 20, (("h", b"1"),)) for number in range(1000)]


def test_kafka_recognises_what_is_sent_again(kafka: Broker) -> None:
    topic = create_topic(kafka, partitions=3)
    generator = random.Random(2)
    breaks = Breaks(sends=set(generator.sample(range(5, 60), 6)), receives=set(generator.sample(range(4, 30), 8)))
    producer = RawProducer(settings_for(kafka), open_socket=breaks.open)
    write(producer, topic, numbered(6_000))
    producer.close()
    assert breaks.broken >= 6
    found = read_with_confluent(kafka, topic)
    for partition in range(3):
        assert [message.value for message in found if message.partition == partition] == numbered(6_000)[partition::3]


def test_kafka_keeps_which_micro_batches_are_written(spark: "SparkSession", kafka: Broker, checkpoint: str) -> None:
    topic, target = create_topic(kafka), create_topic(kafka)
    produce_values(kafka, topic, [b"%d" % number for number in range(100)])
    for _ in range(2):
        copy(source(spark, kafka, topic), kafka, checkpoint, topic=target)
        forget_commit(checkpoint, 0)
    assert values(kafka, target) == list(range(100))
