"""A mirror of an Apache Kafka with TLS and logins, where its jars are: the properties of a Java client are enough."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.brokers import Broker, MillstreamBroker
from tests.certificates import Authority
from tests.mirror.mirror_process import MirrorProcess, await_same
from tests.secured_kafka import PASSWORD, USER, SecuredKafka
from tests.topics import create_topic, fresh_name, produce_values


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
