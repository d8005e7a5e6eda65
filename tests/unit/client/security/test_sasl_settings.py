import pytest

from millstream.client.errors import SecurityOptionError
from millstream.client.security.sasl_settings import OAuthSettings, SaslSettings, parse_sasl

MODULES = "org.apache.kafka.common.security"
USER = {"sasl.username": "alice", "sasl.password": "secret"}
URL = "sasl.oauthbearer.token.endpoint.url"


@pytest.mark.parametrize(
    "options",
    [
        {"sasl.mechanism": "SCRAM-SHA-256", **USER},
        {"sasl.mechanisms": "scram-sha-256", **USER},
        {
            "sasl.mechanism": "SCRAM-SHA-256",
            "sasl.jaas.config": f'{MODULES}.scram.ScramLoginModule required username="alice" password="secret";',
        },
    ],
    ids=["librdkafka", "its other name", "Kafka"],
)
def test_user_and_password_come_from_options_or_from_jaas(options: dict[str, str]) -> None:
    assert parse_sasl(options) == SaslSettings("SCRAM-SHA-256", "alice", "secret")


def test_tokens_come_from_an_endpoint_by_the_names_of_kafka_and_librdkafka() -> None:
    expected = OAuthSettings("https://id/token", "me", "secret", "all", (("logicalCluster", "lkc-1"),))
    librdkafka = {
        "sasl.mechanisms": "OAUTHBEARER",
        "sasl.oauthbearer.method": "OIDC",
        "sasl.oauthbearer.client.id": "me",
        "sasl.oauthbearer.client.secret": "secret",
        "sasl.oauthbearer.scope": "all",
        "sasl.oauthbearer.extensions": "logicalCluster=lkc-1",
        URL: "https://id/token",
    }
    module = f"{MODULES}.oauthbearer.OAuthBearerLoginModule required"
    kafka = {
        "sasl.mechanism": "OAUTHBEARER",
        "sasl.jaas.config": f'{module} clientId="me" clientSecret="secret" scope="all" extension_logicalCluster="lkc-1";',
        URL: "https://id/token",
    }
    assert parse_sasl(librdkafka).oauth == parse_sasl(kafka).oauth == expected
    assert parse_sasl({"sasl.mechanism": "OAUTHBEARER", URL: "file:///run/token"}).oauth == OAuthSettings("file:///run/token")


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        (USER, "sasl.mechanism: it is required: PLAIN, SCRAM-SHA-256, SCRAM-SHA-512, OAUTHBEARER"),
        ({"sasl.mechanism": "GSSAPI"}, "sasl.mechanism: 'GSSAPI' is none of PLAIN"),
        (
            {"sasl.mechanism": "PLAIN", "sasl.mechanisms": "SCRAM-SHA-256", **USER},
            "sasl.mechanism: sasl.mechanism and sasl.mechanisms mean",
        ),
        ({"sasl.mechanism": "PLAIN", "sasl.username": "alice"}, "sasl.password: PLAIN needs it"),
        ({"sasl.mechanism": "PLAIN", "sasl.username": "alice", "sasl.password": "secret\0"}, "sasl.password: PLAIN cannot send a zero"),
        (
            {"sasl.mechanism": "PLAIN", "sasl.jaas.config": f'{MODULES}.ScramLoginModule required username="a" password="secret";'},
            "sasl.jaas.config: ScramLoginModule does not log in by PLAIN: PlainLoginModule does",
        ),
        ({"sasl.mechanism": "PLAIN", "sasl.jaas.config": "secret"}, "sasl.jaas.config: it must begin with a login module"),
        (
            {"sasl.mechanism": "PLAIN", "sasl.jaas.config": 'x.PlainLoginModule required username="a" password="secret";', **USER},
            "sasl.username: sasl.jaas.config has username, too",
        ),
        ({"sasl.mechanism": "OAUTHBEARER"}, f"{URL}: OAUTHBEARER needs it"),
        ({"sasl.mechanism": "OAUTHBEARER", URL: "ftp://id/token"}, f"{URL}: OAUTHBEARER needs it"),
        ({"sasl.mechanism": "OAUTHBEARER", URL: "https://id/token"}, "sasl.oauthbearer.client.id: "),
        ({"sasl.mechanism": "OAUTHBEARER", "sasl.oauthbearer.method": "default"}, "sasl.oauthbearer.method: only oidc"),
        (
            {"sasl.mechanism": "OAUTHBEARER", URL: "file:///t", "sasl.oauthbearer.extensions": "secret"},
            "sasl.oauthbearer.extensions: expected name=value",
        ),
    ],
)
def test_what_is_missing_or_contradicts_itself_is_named(options: dict[str, str], sentence: str) -> None:
    with pytest.raises(SecurityOptionError) as raised:
        parse_sasl(options)
    assert str(raised.value).startswith(sentence)
    assert "secret" not in str(raised.value)
