"""A mirror of an Apache Kafka, where its jars are: with TLS and logins, by the properties of a Java client, and with open transactions."""

import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition

from tests.brokers import Broker, MillstreamBroker
from tests.certificates import Authority
from tests.mirror.mirror_process import MILLSTREAM, MirrorProcess, await_same, batches_of
from tests.secured_kafka import PASSWORD, USER, SecuredKafka
from tests.topics import create_topic, fresh_name, produce_values
from tests.waiting import wait_until

CONTROL = 32
"""Of the attributes of a batch."""


@pytest.fixture(scope="module")
def kafka(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SecuredKafka]:
    broker = SecuredKafka(tmp_path_factory.mktemp("kafka"), Authority(tmp_path_factory.mktemp("certificates")), {})
    broker.start()
    yield broker
    broker.stop()


@pytest.fixture(scope="module")
def offline(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Broker]:
    own = MillstreamBroker(tmp_path_factory.mktemp("offline"), {})
    own.start()
    yield own
    own.kill()


def properties(kafka: SecuredKafka, path: Path, password: str) -> Path:
    quoted = password.replace('"', '\\\\"')
    path.write_text(
        "security.protocol=SASL_SSL\nsasl.mechanism=SCRAM-SHA-512\nssl.truststore.type=PEM\n"
        f"ssl.truststore.location={kafka.authority.ca}\nclient.id=not about security\n"
        "sasl.jaas.config=org.apache.kafka.common.security.scram.ScramLoginModule required \\\n"
        f'  username="{USER}" password="{quoted}";\n'
    )
    return path


def test_a_secured_kafka_is_mirrored_and_merged_with_the_properties_of_a_java_client(
    kafka: SecuredKafka, offline: Broker, tmp_path: Path
) -> None:
    topic = create_topic(kafka, name=fresh_name("x"), partitions=2)
    for partition in range(2):
        produce_values(kafka, topic, [b"%d" % number for number in range(500)], partition=partition, batch_size=50)
    options = ("--topics", topic, "--from-config", str(properties(kafka, tmp_path / "client.properties", PASSWORD)))
    with MirrorProcess(tmp_path, kafka.at("SASL_SSL"), offline.bootstrap_servers, *options) as mirror:
        assert await_same(kafka, offline, topic, partitions=2) == 20
        mirror.wait_for("this process copies 2 partition(s) now")
        assert PASSWORD not in mirror.output
    merged = ("--topics", topic, "--merge", "--prefix", "merged.", "--name", "merge", *options[2:])
    with MirrorProcess(tmp_path, kafka.at("SASL_SSL"), offline.bootstrap_servers, *merged) as mirror:
        mirror.wait_for("ready: mirror merge merges")


def test_a_wrong_password_is_said_and_tried_again_without_being_shown(kafka: SecuredKafka, offline: Broker, tmp_path: Path) -> None:
    options = ("--topics", "anything", "--alone", "--from-config", str(properties(kafka, tmp_path / "client.properties", "hidden")))
    with MirrorProcess(tmp_path, kafka.at("SASL_SSL"), offline.bootstrap_servers, *options) as mirror:
        mirror.wait_for("refused the login of user 'alice' by SCRAM-SHA-512: Authentication failed")
        assert mirror.stop() == 0
        assert "hidden" not in mirror.output
    (tmp_path / "merge").mkdir()
    options = (*options[:2], *options[3:], "--merge")
    with MirrorProcess(tmp_path / "merge", kafka.at("SASL_SSL"), offline.bootstrap_servers, *options) as merging:
        assert merging.wait() == 1
        assert merging.output.count("refused the login of user 'alice'") == 1
        assert "hidden" not in merging.output


def test_promotion_aborts_transactions_that_are_open_so_that_readers_of_committed_records_go_on(
    kafka: SecuredKafka, offline: Broker, tmp_path: Path
) -> None:
    topic = create_topic(kafka, name=fresh_name("t"))
    producer = Producer({"bootstrap.servers": kafka.bootstrap_servers, "transactional.id": topic, "linger.ms": 0})
    producer.init_transactions(30)
    producer.begin_transaction()
    producer.produce(topic, b"open")
    producer.flush(30)
    with MirrorProcess(tmp_path, kafka.bootstrap_servers, offline.bootstrap_servers, "--topics", topic, "--alone"):
        await_same(kafka, offline, topic)
        promote = [MILLSTREAM, "mirror", "promote", "--topics", topic, "--to", offline.bootstrap_servers]
        subprocess.run(promote, check=True, capture_output=True, timeout=60)
    producer.abort_transaction(30)
    produce_values(offline, topic, [b"after"])
    (transaction, _), (marker, _), _, (after, _) = batches_of(offline, topic)
    assert (marker.attributes & CONTROL, marker.producer_id) == (CONTROL, transaction.producer_id)
    assert after.base_offset == 3
    consumer = Consumer({"bootstrap.servers": offline.bootstrap_servers, "group.id": topic, "isolation.level": "read_committed"})
    consumer.assign([TopicPartition(topic, 0, 0)])
    wait_until(lambda: b"after" in [each.value() for each in consumer.consume(10, 0.5)], "the record after the promotion")
    consumer.close()
