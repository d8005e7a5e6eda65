"""Our own connections against an Apache Kafka with TLS and logins, where its jars are."""

import asyncio
import base64
import json
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

import millstream
from millstream.address import parse_bootstrap_servers
from millstream.audited.settings import AuditSettings
from millstream.client.async_connection import AsyncConnection
from millstream.client.cluster import Cluster
from millstream.client.codecs.fetch import FetchFrom, FetchRequest
from millstream.client.codecs.metadata import metadata_request
from millstream.client.codecs.produce import BatchFor
from millstream.client.errors import AuthenticationFailed, BrokerUnavailable
from millstream.client.security.client_security import ClientSecurity
from tests.audit_reports import totals
from tests.batches import encode_batch
from tests.certificates import Authority
from tests.secured_kafka import PASSWORD, USER, SecuredKafka
from tests.topics import create_topic, read_all
from tests.unit.cli.conftest import Millstream
from tests.unit.cli.conftest import millstream as command

__all__ = ["command"]

METADATA = metadata_request([])
LOGIN_LIFE_S = 1.5


@pytest.fixture(scope="module")
def kafka(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SecuredKafka]:
    broker = SecuredKafka(tmp_path_factory.mktemp("kafka"), Authority(tmp_path_factory.mktemp("certificates")), {})
    broker.start()
    yield broker
    broker.stop()


def token(subject: str, *, expires_in_s: int) -> str:
    """A token without a signature, as this broker takes it."""
    now = int(time.time())
    parts = ({"alg": "none"}, {"sub": subject, "iat": now - 10, "exp": now + expires_in_s, "scope": "all"})
    return ".".join(base64.urlsafe_b64encode(json.dumps(part).encode()).decode().rstrip("=") for part in parts) + "."


@pytest.mark.parametrize("mechanism", ["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"])
def test_batches_go_out_and_come_back_with_every_mechanism(kafka: SecuredKafka, mechanism: str) -> None:
    topic = create_topic(kafka)
    batch = encode_batch([b"one", b"x" * 300_000])
    with Cluster(kafka.at("SASL_SSL"), security=ClientSecurity.of(kafka.client_options(mechanism))) as cluster:
        cluster.produce(BatchFor(topic, 0, batch))
        assert bytes(cluster.fetch(FetchFrom(topic, 0, offset=0)).records)[16:] == batch[16:]


def test_jaas_names_the_user_as_for_javas_clients(kafka: SecuredKafka) -> None:
    options = kafka.client_options()
    quoted = PASSWORD.replace('"', '\\"')
    jaas = f'org.apache.kafka.common.security.scram.ScramLoginModule required username="{USER}" password="{quoted}";'
    del options["sasl.username"], options["sasl.password"]
    with Cluster(kafka.at("SASL_SSL"), security=ClientSecurity.of(options | {"sasl.jaas.config": jaas})) as cluster:
        assert cluster.refresh([]).brokers


def test_a_token_logs_in_and_one_that_is_over_does_not(kafka: SecuredKafka, tmp_path: Path) -> None:
    path = tmp_path / "token"
    options = {
        "security.protocol": "SASL_SSL",
        "ssl.ca.location": str(kafka.authority.ca),
        "sasl.mechanism": "OAUTHBEARER",
        "sasl.oauthbearer.token.endpoint.url": f"file://{path}",
    }
    security = ClientSecurity.of(options)
    path.write_text(token("alice", expires_in_s=600))
    with Cluster(kafka.at("SASL_SSL"), security=security) as cluster:
        assert cluster.refresh([]).brokers
    path.write_text(token("alice", expires_in_s=-5))
    with Cluster(kafka.at("SASL_SSL"), security=security) as cluster, pytest.raises(AuthenticationFailed, match="by OAUTHBEARER: "):
        cluster.refresh([])


def test_a_client_shows_its_certificate(kafka: SecuredKafka) -> None:
    trust = {"security.protocol": "SSL", "ssl.ca.location": str(kafka.authority.ca)}
    own = str(kafka.authority.issue("client", password="of the key"))
    shown = trust | {"ssl.certificate.location": own, "ssl.key.location": own, "ssl.key.password": "of the key"}
    with Cluster(kafka.at("SSL"), security=ClientSecurity.of(shown)) as cluster:
        assert cluster.refresh([]).brokers
    for versions in ("TLSv1.2", "TLSv1.3"):
        security = ClientSecurity.of(trust | {"ssl.enabled.protocols": versions})
        with Cluster(kafka.at("SSL"), security=security) as cluster, pytest.raises(AuthenticationFailed, match="want a certificate"):
            cluster.refresh([])


def test_a_login_is_renewed_on_the_same_connection_while_fetches_are_under_way(kafka: SecuredKafka) -> None:
    topic = create_topic(kafka)
    security = ClientSecurity.of(kafka.client_options("PLAIN"))
    with Cluster(kafka.at("SASL_SSL"), security=security) as cluster:
        connection = cluster.connection(cluster.leader(topic, 0))
        cluster.produce(BatchFor(topic, 0, encode_batch([b"x"])))
        end = time.monotonic() + 1.5 * LOGIN_LIFE_S
        while time.monotonic() < end:
            waiting = [connection.send(FetchRequest([FetchFrom(topic, 0, offset)], max_wait_ms=100)) for offset in (1, 0)]
            assert [len(connection.receive(each).partitions[0].records) > 0 for each in waiting] == [False, True]
        assert not connection.is_closed


async def test_requests_on_an_event_loop_are_held_back_while_the_login_is_renewed(kafka: SecuredKafka) -> None:
    topic = create_topic(kafka)
    security = ClientSecurity.of(kafka.client_options("PLAIN"))
    (address,) = parse_bootstrap_servers(kafka.at("SASL_SSL"))
    async with await AsyncConnection.open(address, security=security) as connection:
        end = time.monotonic() + 1.5 * LOGIN_LIFE_S
        while time.monotonic() < end:
            waiting = connection.send(FetchRequest([FetchFrom(topic, 0, 0)], max_wait_ms=50))
            assert all(each.brokers for each in await asyncio.gather(*(connection.send(METADATA) for _ in range(3))))
            assert (await waiting).partitions[0].error_code == 0
        await asyncio.sleep(LOGIN_LIFE_S + 0.3)  # a login that is over is renewed too: the broker looks at it when a request comes
        assert (await connection.send(METADATA)).brokers


@pytest.mark.parametrize("mechanism", ["PLAIN", "SCRAM-SHA-512"])
async def test_a_wrong_password_is_one_sentence_without_the_password(kafka: SecuredKafka, mechanism: str) -> None:
    security = ClientSecurity.of(kafka.client_options(mechanism) | {"sasl.password": "hidden"})
    with Cluster(kafka.at("SASL_SSL"), security=security) as cluster, pytest.raises(AuthenticationFailed) as raised:
        cluster.refresh([])
    (address,) = parse_bootstrap_servers(kafka.at("SASL_SSL"))
    with pytest.raises(AuthenticationFailed) as raised_async:
        await AsyncConnection.open(address, security=security)
    for said in (str(raised.value), str(raised_async.value)):
        assert said.startswith(f"the broker at {address} refused the login of user 'alice' by {mechanism}: Authentication failed")
        assert "hidden" not in said
    assert "hidden" not in repr(cluster.__dict__)


@pytest.mark.parametrize(
    ("listener", "protocol", "sentence"),
    [
        ("SASL_SSL", "PLAINTEXT", "this port speaks TLS; set security.protocol to SSL or SASL_SSL"),
        ("SASL_SSL", "SSL", "if this port wants a login, set security.protocol to SASL_SSL"),
        ("SASL_SSL", "SASL_PLAINTEXT", "this port speaks TLS; set security.protocol to SSL or SASL_SSL"),
        ("SASL_PLAINTEXT", "PLAINTEXT", "if this port wants a login, set security.protocol to SASL_PLAINTEXT"),
        ("SASL_PLAINTEXT", "SASL_SSL", "if it is a plain port, set security.protocol to PLAINTEXT or SASL_PLAINTEXT"),
        ("PLAINTEXT", "SASL_PLAINTEXT", "takes no login on this port: set security.protocol to PLAINTEXT"),
    ],
)
def test_the_wrong_protocol_for_a_port_is_said_with_the_right_one(kafka: SecuredKafka, listener: str, protocol: str, sentence: str) -> None:
    allowed = {"SSL": ("ssl.",), "SASL_PLAINTEXT": ("sasl.",), "SASL_SSL": ("ssl.", "sasl."), "PLAINTEXT": ()}[protocol]
    options = {name: value for name, value in kafka.client_options().items() if name.startswith(allowed)}
    servers = kafka.bootstrap_servers if listener == "PLAINTEXT" else kafka.at(listener)
    security = ClientSecurity.of(options | {"security.protocol": protocol})
    with Cluster(servers, security=security, timeout_s=10) as cluster, pytest.raises((AuthenticationFailed, BrokerUnavailable)) as raised:
        cluster.refresh([])
    assert sentence in str(raised.value)


def test_certificates_are_checked_against_the_authority_and_the_name(kafka: SecuredKafka) -> None:
    options = kafka.client_options()
    with (
        Cluster(kafka.at("SASL_SSL", host="127.0.0.1"), security=ClientSecurity.of(options)) as cluster,
        pytest.raises(AuthenticationFailed, match="is for another name"),
    ):
        cluster.refresh([])
    del options["ssl.ca.location"]
    with (
        Cluster(kafka.at("SASL_SSL"), security=ClientSecurity.of(options)) as cluster,
        pytest.raises(AuthenticationFailed, match="is not trusted"),
    ):
        cluster.refresh([])


def test_an_audited_producer_reports_with_its_own_login_and_a_wrong_one_disturbs_nobody(
    kafka: SecuredKafka, caplog: pytest.LogCaptureFixture
) -> None:
    topic = create_topic(kafka)
    options = kafka.client_options("SCRAM-SHA-512")
    wrong = AuditSettings("shop", options={"sasl.password": "hidden"})
    for audit in ("shop", wrong):
        with millstream.Producer(kafka.at("SASL_SSL"), audit=audit, options=options) as producer:
            producer.send(topic, [b"one", b"two"])
    assert len(read_all(kafka, topic)) == 4
    assert totals(kafka.bootstrap_servers, topic) == {"shop": (2, 0)}
    assert "refused the login of user 'alice'" in caplog.text
    assert "hidden" not in caplog.text


def test_a_table_is_read_with_tls_and_a_login(kafka: SecuredKafka) -> None:
    topic = create_topic(kafka, partitions=2)
    with Cluster(kafka.bootstrap_servers) as cluster:
        for partition in range(2):
            cluster.produce(BatchFor(topic, partition, encode_batch([b"%d" % partition] * 3)))
    table = millstream.read_table(topic, brokers=kafka.at("SASL_SSL"), options=kafka.client_options(), value_format="string")
    assert table["value"].to_pylist() == ["0", "0", "0", "1", "1", "1"]
    with pytest.raises(AuthenticationFailed, match="refused the login of user 'alice'") as raised:
        millstream.read_table(topic, brokers=kafka.at("SASL_SSL"), options={**kafka.client_options(), "sasl.password": "hidden"})
    assert "hidden" not in str(raised.value)


def test_commands_reach_a_secured_cluster_by_a_profile(
    kafka: SecuredKafka, command: Millstream, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    topic = create_topic(kafka)
    options = "".join(f"{json.dumps(name)} = {json.dumps(value)}\n" for name, value in kafka.client_options().items())
    profiles = tmp_path / "profiles.toml"
    profiles.write_text(f'[secured]\nbrokers = "{kafka.at("SASL_SSL")}"\n[secured.options]\n{options}')
    profiles.chmod(0o600)
    monkeypatch.setenv("MILLSTREAM_PROFILES", str(profiles))
    assert command("produce", topic, "one", "--profile", "secured").code == 0
    assert command("consume", topic, "--profile", "secured").out == "one\n"
    (listed,) = command("topic", "list", "--output", "json", "--profile", "secured").documents
    assert [(found["messages"], found["size_bytes"] > 0) for found in listed if found["topic"] == topic] == [(1, True)]
    assert command("group", "seek", "secured", "earliest", "-t", topic, "--execute", "--profile", "secured").code == 0
    (groups,) = command("group", "list", "--output", "json", "--profile", "secured").documents
    assert [(found["lag"], found["lag_seconds"] is not None) for found in groups if found["group"] == "secured"] == [(1, True)]
