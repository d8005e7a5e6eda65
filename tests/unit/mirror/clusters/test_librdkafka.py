import base64
import json
from pathlib import Path

import pytest
from confluent_kafka import KafkaError as LibrdkafkaError

from millstream.client.security.client_security import NO_SECURITY, ClientSecurity
from millstream.errors import UsageError
from millstream.mirror.clusters.librdkafka import LibrdkafkaFailed, _options, open_consumer

LOGIN = {"sasl.mechanism": "SCRAM-SHA-256", "sasl.username": "alice", "sasl.password": "secret"}


@pytest.mark.parametrize("protocol", ["PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL"])
def test_librdkafka_gets_the_security_that_our_own_connections_have(protocol: str) -> None:
    tls = {"ssl.ca.location": "ca.pem", "ssl.endpoint.identification.algorithm": "none"} if protocol.endswith("SSL") else {}
    login = LOGIN if protocol.startswith("SASL") else {}
    options = _options("kafka:9093", ClientSecurity.of({"security.protocol": protocol, **tls, **login}))
    assert options["security.protocol"] == protocol
    assert {name: options.get(name) for name in tls} == tls
    assert options.get("sasl.mechanisms") == login.get("sasl.mechanism")
    assert options.get("sasl.password") == login.get("sasl.password")


def test_a_token_is_handed_to_librdkafka_with_its_end(tmp_path: Path) -> None:
    claims = base64.urlsafe_b64encode(json.dumps({"exp": 2_000_000_000}).encode()).decode().rstrip("=")
    (tmp_path / "token").write_text(f"head.{claims}.signature")
    options = _options(
        "kafka:9093",
        ClientSecurity.of(
            {
                "security.protocol": "SASL_PLAINTEXT",
                "sasl.mechanism": "OAUTHBEARER",
                "sasl.oauthbearer.token.endpoint.url": f"file://{tmp_path}/token",
                "sasl.oauthbearer.extensions": "a=b",
            }
        ),
    )
    assert options["oauth_cb"]("") == (f"head.{claims}.signature", 2_000_000_000.0, "", {"a": "b"})


def test_what_librdkafka_does_not_take_is_a_wrong_setting() -> None:
    with pytest.raises(UsageError, match="a client of kafka:9093 cannot be made: "):
        open_consumer("kafka:9093", NO_SECURITY, {"group.id": "x", "session.timeout.ms": -1})


@pytest.mark.parametrize(
    ("code", "is_fenced", "is_final", "is_unexplained"),
    [
        (LibrdkafkaError._FENCED, True, False, False),
        (LibrdkafkaError.INVALID_PRODUCER_EPOCH, True, False, False),
        (LibrdkafkaError.CLUSTER_AUTHORIZATION_FAILED, False, True, False),
        (LibrdkafkaError.OUT_OF_ORDER_SEQUENCE_NUMBER, False, False, False),
        (LibrdkafkaError._FATAL, False, False, True),
    ],
)
def test_only_a_successor_fences_and_other_fatal_errors_are_told_apart(
    code: int, *, is_fenced: bool, is_final: bool, is_unexplained: bool
) -> None:
    error = LibrdkafkaFailed("at kafka:9093: it failed", code)
    assert (error.is_fenced, error.is_final, error.is_unexplained) == (is_fenced, is_final, is_unexplained)


def test_a_broker_that_is_down_is_not_logged_with_each_attempt_to_reach_it(caplog: pytest.LogCaptureFixture) -> None:
    consumer = open_consumer("127.0.0.1:1", NO_SECURITY, {"group.id": "members"})
    try:
        consumer.subscribe(["orders"])
        consumer.poll(1.0)
        assert caplog.records == []
    finally:
        consumer.close()
