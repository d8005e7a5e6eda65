"""The source and the sink against an Apache Kafka with TLS and logins, by the names that Spark's own connector takes."""

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

from tests.certificates import Authority
from tests.secured_kafka import SecuredKafka
from tests.topics import create_topic

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@pytest.fixture(scope="module")
def kafka(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SecuredKafka]:
    broker = SecuredKafka(tmp_path_factory.mktemp("kafka"), Authority(tmp_path_factory.mktemp("certificates")), {})
    broker.start()
    yield broker
    broker.stop()


def options(kafka: SecuredKafka) -> dict[str, str]:
    given = {"bootstrap.servers": kafka.at("SASL_SSL"), **kafka.client_options("SCRAM-SHA-256")}
    return {f"kafka.{name}": value for name, value in given.items()}


def test_what_the_sink_wrote_with_tls_and_a_login_is_read_with_them(spark: "SparkSession", kafka: SecuredKafka) -> None:
    topic = create_topic(kafka, partitions=2)
    rows = spark.range(2_000).selectExpr("CAST(id AS STRING) AS value")
    rows.write.format("millstream").mode("append").options(**options(kafka)).option("topic", topic).save()
    read = spark.read.format("millstream").options(**options(kafka)).option("subscribe", topic).load()
    assert {int(row.value) for row in read.select("value").collect()} == set(range(2_000))


def test_a_wrong_password_is_said_once_and_not_shown(spark: "SparkSession", kafka: SecuredKafka) -> None:
    wrong = {**options(kafka), "kafka.sasl.password": "hidden"}
    with pytest.raises(Exception, match="refused the login of user 'alice' by SCRAM-SHA-256: Authentication failed") as raised:
        spark.read.format("millstream").options(**wrong).option("subscribe", "clicks").load().collect()
    assert "hidden" not in str(raised.value)
