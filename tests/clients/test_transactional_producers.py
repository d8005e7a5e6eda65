"""A transactional producer is told at once that there are no transactions yet, in the words of its client; none of them tries for ever.

FindCoordinator carries the sentence, so it is the answer that counts. Every client is given ten seconds, and must not need them: what is
looked at is that it ends with the error it was sent and not with a timeout of its own.
"""

import subprocess
from pathlib import Path

import pytest
from aiokafka import AIOKafkaProducer
from aiokafka.errors import TransactionalIdAuthorizationFailed
from confluent_kafka import KafkaError, KafkaException, Producer
from kafka import KafkaProducer
from kafka.errors import KafkaError as KafkaPythonError
from kio.schema.errors import ErrorCode

from tests.brokers import IS_KAFKA, Broker
from tests.connection import FIND_COORDINATOR, INIT_PRODUCER_ID
from tests.java import LIBRARIES, java_command

pytestmark = pytest.mark.skipif(IS_KAFKA, reason="Kafka has transactions")

TRANSACTION = 1
JAVA_PRODUCER = """\
import java.util.Map;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.common.serialization.StringSerializer;

public class Transactional {
    public static void main(String[] arguments) {
        var settings = Map.<String, Object>of("bootstrap.servers", arguments[0], "transactional.id", "java", "max.block.ms", 10000);
        try (var producer = new KafkaProducer<>(settings, new StringSerializer(), new StringSerializer())) {
            producer.initTransactions();
        } catch (Exception failure) {
            System.out.println(failure);
        }
    }
}
"""


@pytest.mark.parametrize("version", [1, 3])
def test_one_who_looks_for_the_coordinator_of_one_transaction_is_not_authorized(broker: Broker, version: int) -> None:
    with broker.connect() as connection:
        answer = connection.ask(FIND_COORDINATOR, version, {"key": "t", "key_type": TRANSACTION})
    assert (answer.error_code, answer.node_id) == (ErrorCode.transactional_id_authorization_failed, -1)
    assert "no transactions" in answer.error_message


@pytest.mark.parametrize("version", [4, 6])
def test_each_of_several_coordinators_asked_for_is_refused(broker: Broker, version: int) -> None:
    with broker.connect() as connection:
        answer = connection.ask(FIND_COORDINATOR, version, {"coordinator_keys": ["a", "b"], "key_type": TRANSACTION})
    assert [(one.key, one.error_code) for one in answer.coordinators] == [(key, ErrorCode.unsupported_version) for key in ("a", "b")]
    assert all("no transactions" in one.error_message for one in answer.coordinators)


@pytest.mark.parametrize("version", [0, 5])
@pytest.mark.parametrize(
    ("transactional_id", "code"), [("t", ErrorCode.transactional_id_authorization_failed), ("", ErrorCode.invalid_request)]
)
def test_transactional_producer_gets_no_id(broker: Broker, version: int, transactional_id: str, code: ErrorCode) -> None:
    asked = {"transactional_id": transactional_id, "transaction_timeout_ms": 1000, "producer_id": -1, "producer_epoch": -1}
    with broker.connect() as connection:
        assert connection.ask(INIT_PRODUCER_ID, version, asked).error_code == code


def test_confluent_kafka_says_why_and_stops(broker: Broker) -> None:
    producer = Producer({"bootstrap.servers": broker.bootstrap_servers, "transactional.id": "confluent"})
    with pytest.raises(KafkaException, match="this broker has no transactions yet") as refused:
        producer.init_transactions(10)
    error: KafkaError = refused.value.args[0]
    assert (error.fatal(), error.retriable(), error.code()) == (True, False, KafkaError.TRANSACTIONAL_ID_AUTHORIZATION_FAILED)


def test_kafka_python_says_that_there_is_no_coordinator_and_stops(broker: Broker) -> None:
    producer = KafkaProducer(bootstrap_servers=broker.bootstrap_servers, transactional_id="kafka-python", max_block_ms=10_000)
    try:
        with pytest.raises(KafkaPythonError, match=r"Could not find a coordinator.*UnsupportedVersion"):
            producer.init_transactions()
    finally:
        producer.close(timeout=0)


async def test_aiokafka_says_that_the_transaction_is_refused_and_stops(broker: Broker) -> None:
    producer = AIOKafkaProducer(bootstrap_servers=broker.bootstrap_servers, transactional_id="aiokafka")
    with pytest.raises(TransactionalIdAuthorizationFailed):
        await producer.start()
    await producer.stop()


def test_java_says_why_and_stops(broker: Broker, tmp_path: Path) -> None:
    source = tmp_path / "Transactional.java"
    source.write_text(JAVA_PRODUCER)
    done = subprocess.run([*java_command(str(source)), broker.bootstrap_servers], capture_output=True, text=True, timeout=120, check=False)
    assert "this broker has no transactions yet" in done.stdout, f"{LIBRARIES}: {done.stdout}{done.stderr}"
