"""What is wrong with a read is an error where a user of Spark looks: at `load()`, or when the query starts, with the option's name."""

import pytest
from pyspark.sql import SparkSession

from tests.brokers import Broker
from tests.spark.reading import frame, stream
from tests.spark.topic_content import write_numbers
from tests.topics import create_topic, fresh_name

NO_BROKER = "127.0.0.1:1"


def test_a_wrong_option_is_reported_at_load(spark: SparkSession, broker: Broker) -> None:
    with pytest.raises(Exception, match=r"option startingOffsets: 'soon' is neither \"earliest\" nor \"latest\" nor offsets as JSON"):
        frame(spark, broker, "topic", startingOffsets="soon")
    with pytest.raises(Exception, match=r"option subscrib: there is no such option\. Did you mean subscribe\?"):
        frame(spark, broker, subscrib="topic")


def test_what_only_a_batch_or_only_a_stream_can_do_is_reported(spark: SparkSession, broker: Broker, topic: str) -> None:
    with pytest.raises(Exception, match="option startingOffsets: a batch cannot begin at the latest offset"):
        frame(spark, broker, topic, startingOffsets="latest").collect()
    query = stream(spark, broker, topic, endingOffsets="latest").writeStream.format("noop").start()
    with pytest.raises(Exception, match=r"a stream has no end; they are for spark\.read"):
        query.awaitTermination(300)


def test_a_topic_that_does_not_exist_is_reported(spark: SparkSession, broker: Broker) -> None:
    name = fresh_name("missing")
    with pytest.raises(Exception, match=f"{name}: no such topic or partition at {broker.bootstrap_servers}"):
        frame(spark, broker, name).collect()
    topic = create_topic(broker)
    with pytest.raises(Exception, match=f"{topic}-5: no such topic or partition"):
        frame(spark, broker, assign=f'{{"{topic}": [0, 5]}}').collect()


def test_offsets_must_name_the_partitions_that_are_read(spark: SparkSession, broker: Broker) -> None:
    topic = create_topic(broker, partitions=2)
    with pytest.raises(
        Exception, match=rf"option startingOffsets: it must name exactly the partitions .* Missing: {topic}-1\. Not read: none"
    ):
        frame(spark, broker, topic, startingOffsets=f'{{"{topic}": {{"0": 0}}}}').collect()
    with pytest.raises(Exception, match=r"option endingOffsetsByTimestamp: .* Not read: other-0"):
        frame(spark, broker, topic, endingOffsetsByTimestamp='{"other": {"0": 0}}').collect()


def test_a_time_after_the_last_record_is_reported_unless_the_end_is_wanted(spark: SparkSession, broker: Broker, topic: str) -> None:
    write_numbers(broker, topic, range(5))
    with pytest.raises(Exception, match=rf"option startingTimestamp: {topic}-0 has no record of that time or later"):
        frame(spark, broker, topic, startingTimestamp=9_999_999).collect()
    assert frame(spark, broker, topic, startingTimestamp=9_999_999, startingOffsetsByTimestampStrategy="latest").collect() == []


def test_a_broker_that_does_not_answer_is_reported_by_its_address(spark: SparkSession) -> None:
    options = {"kafka.bootstrap.servers": NO_BROKER, "subscribe": "topic", "kafka.request.timeout.ms": "2000"}
    with pytest.raises(
        Exception, match=rf"no broker answers at {NO_BROKER}: connection refused; is it running, and is the address right\?"
    ):
        spark.read.format("millstream").options(**options).load().collect()
    query = spark.readStream.format("millstream").options(**options).load().writeStream.format("noop").start()
    with pytest.raises(Exception, match=rf"no broker answers at {NO_BROKER}: connection refused"):
        query.awaitTermination(300)


def test_a_login_that_is_not_complete_is_refused_and_nothing_is_sent_in_the_clear(spark: SparkSession, broker: Broker, topic: str) -> None:
    with pytest.raises(Exception, match=r"option kafka\.sasl\.mechanism: it is required: PLAIN, SCRAM-SHA-256"):
        frame(spark, broker, topic, kafka__security__protocol="SASL_SSL").collect()


def test_a_schema_that_topics_do_not_have_is_refused(spark: SparkSession, broker: Broker, topic: str) -> None:
    reader = spark.read.format("millstream").option("kafka.bootstrap.servers", broker.bootstrap_servers).option("subscribe", topic)
    with pytest.raises(Exception, match="option schema: there is no column 'nope': choose from key, value, topic"):
        reader.schema("nope INT").load().collect()
    with pytest.raises(Exception, match="option schema: the column offset is bigint, not string"):
        reader.schema("offset STRING").load().collect()
    with pytest.raises(Exception, match="option schema: the column corrupt_value goes with value and mode = PERMISSIVE"):
        reader.schema("corrupt_value BINARY").load().collect()


def test_an_end_before_the_start_is_lost_data_or_nothing(spark: SparkSession, broker: Broker, topic: str) -> None:
    write_numbers(broker, topic, range(5))
    edges = {"startingOffsets": f'{{"{topic}": {{"0": 4}}}}', "endingOffsets": f'{{"{topic}": {{"0": 2}}}}'}
    with pytest.raises(Exception, match=f"{topic}-0 is to be read from offset 4 up to 2, which is before it"):
        frame(spark, broker, topic, **edges).collect()
    assert frame(spark, broker, topic, failOnDataLoss=False, **edges).collect() == []


def test_offsets_that_are_not_there_are_lost_data_or_skipped(spark: SparkSession, broker: Broker, topic: str) -> None:
    write_numbers(broker, topic, range(5))
    beyond = {"startingOffsets": f'{{"{topic}": {{"0": 7}}}}', "endingOffsets": f'{{"{topic}": {{"0": 9}}}}'}
    with pytest.raises(Exception, match=f"offset 7 of {topic}-0 is gone: the partition now has the offsets from 0 up to 5"):
        frame(spark, broker, topic, **beyond).collect()
    assert frame(spark, broker, topic, failOnDataLoss=False, **beyond).collect() == []
    waiting = {"endingOffsets": f'{{"{topic}": {{"0": 9}}}}', "kafkaConsumer__pollTimeoutMs": 1500}
    with pytest.raises(Exception, match=f"nothing came from {topic}-0 at offset 5 for 1500 ms, though the query reads up to 9"):
        frame(spark, broker, topic, **waiting).collect()
    assert len(frame(spark, broker, topic, failOnDataLoss=False, **waiting).collect()) == 5
