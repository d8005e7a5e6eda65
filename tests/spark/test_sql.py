"""Topics as tables of SQL: views that are read and inserted into."""

from typing import TYPE_CHECKING

import pytest

from tests.brokers import Broker
from tests.spark.read_back import ends, read_with_confluent
from tests.topics import create_topic, fresh_name

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def create_view(spark: "SparkSession", broker: Broker, columns: str = "", **options: str) -> str:
    """A temporary view with these options; returns its name."""
    name = fresh_name("view").replace("-", "_")
    given = {"kafka.bootstrap.servers": broker.bootstrap_servers} | options
    listed = ", ".join(f"`{option}` '{value}'" for option, value in given.items())
    spark.sql(f"CREATE TEMPORARY VIEW {name} {columns} USING millstream OPTIONS ({listed})")
    return name


def test_rows_are_inserted_into_a_view_of_their_own_columns(spark: "SparkSession", broker: Broker) -> None:
    topic = create_topic(broker)
    view = create_view(spark, broker, "(key STRING, value STRING)", topic=topic)
    spark.sql(f"INSERT INTO {view} VALUES ('a', 'one'), (NULL, 'two')")
    spark.sql(f"INSERT INTO {view} (value) SELECT 'three'")
    found = {(message.key, message.value) for message in read_with_confluent(broker, topic)}
    assert found == {(b"a", b"one"), (None, b"two"), (None, b"three")}


def test_one_view_serves_both_directions(spark: "SparkSession", broker: Broker) -> None:
    topic = create_topic(broker, partitions=2)
    view = create_view(spark, broker, topic=topic)
    spark.sql(f"INSERT INTO {view} (key, value, partition) VALUES (CAST('a' AS BINARY), CAST('one' AS BINARY), 1)")
    spark.sql(f"INSERT INTO {view} (value) VALUES (CAST('two' AS BINARY))")
    found = spark.sql(f"SELECT CAST(value AS STRING) AS text, topic FROM {view} ORDER BY text").collect()
    assert [(row.text, row.topic) for row in found] == [("one", topic), ("two", topic)]
    assert ends(broker, topic)[1] >= 1


def test_what_is_selected_from_one_topic_is_inserted_into_another(spark: "SparkSession", broker: Broker) -> None:
    source, target = create_topic(broker), create_topic(broker)
    written = create_view(spark, broker, "(value STRING)", topic=source)
    spark.sql(f"INSERT INTO {written} SELECT CAST(id AS STRING) FROM range(100)")
    read = create_view(spark, broker, subscribe=source)
    copied = create_view(spark, broker, "(value BINARY)", topic=target)
    spark.sql(f"INSERT INTO {copied} SELECT value FROM {read} WHERE CAST(CAST(value AS STRING) AS INT) < 10")
    assert {message.value for message in read_with_confluent(broker, target)} == {str(number).encode() for number in range(10)}


def test_columns_become_json_by_an_option_of_the_view(spark: "SparkSession", broker: Broker) -> None:
    topic = create_topic(broker)
    view = create_view(spark, broker, "(id INT, name STRING)", **{"topic": topic, "value.format": "json"})
    spark.sql(f"INSERT INTO {view} VALUES (1, 'ann'), (2, NULL)")
    assert {message.value for message in read_with_confluent(broker, topic)} == {b'{"id":1,"name":"ann"}', b'{"id":2}'}


def test_a_topic_cannot_be_overwritten_by_sql(spark: "SparkSession", broker: Broker) -> None:
    view = create_view(spark, broker, "(value STRING)", topic=create_topic(broker))
    with pytest.raises(Exception, match="a topic cannot be overwritten, only appended to"):
        spark.sql(f"INSERT OVERWRITE {view} VALUES ('a')")


def test_a_table_of_the_catalog_says_that_it_has_no_options(spark: "SparkSession", broker: Broker) -> None:
    name = fresh_name("table").replace("-", "_")
    spark.sql(
        f"CREATE TABLE {name} (value STRING) USING millstream OPTIONS (topic 'x', `kafka.bootstrap.servers` '{broker.bootstrap_servers}')"
    )
    with pytest.raises(Exception, match="In SQL use CREATE TEMPORARY VIEW: CREATE TABLE does not pass its options on"):
        spark.sql(f"INSERT INTO {name} VALUES ('a')")
    spark.sql(f"DROP TABLE {name}")
