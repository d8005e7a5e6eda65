import pickle

import pytest

from millstream.client.errors import SecurityOptionError
from millstream.client.security.client_security import NO_SECURITY, ClientSecurity

LOGIN = {"sasl.mechanism": "PLAIN", "sasl.username": "alice", "sasl.password": "secret"}


@pytest.mark.parametrize(
    ("protocol", "options", "has_tls", "has_sasl"),
    [
        ("PLAINTEXT", {}, False, False),
        ("SSL", {}, True, False),
        ("sasl_plaintext", LOGIN, False, True),
        ("SASL_SSL", LOGIN, True, True),
    ],
)
def test_the_protocol_says_whether_there_is_tls_and_a_login(protocol: str, options: dict[str, str], has_tls: bool, has_sasl: bool) -> None:
    security = ClientSecurity.of({"security.protocol": protocol, **options})
    assert (security.tls is not None, security.sasl is not None) == (has_tls, has_sasl)


def test_options_that_are_not_about_security_are_left_alone() -> None:
    assert ClientSecurity.of({"acks": "all", "client.id": "me"}) == NO_SECURITY


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"security.protocol": "TLS"}, "security.protocol: 'TLS' is none of PLAINTEXT, SSL, SASL_PLAINTEXT, SASL_SSL"),
        ({"sasl.passwrod": "secret"}, "sasl.passwrod: Kafka's clients have no such option"),
        (LOGIN, "sasl.mechanism: it needs security.protocol = SASL_SSL or SASL_PLAINTEXT, not PLAINTEXT"),
        ({"security.protocol": "SSL", **LOGIN}, "sasl.mechanism: it needs security.protocol = SASL_SSL, not SSL"),
        ({"ssl.ca.location": "ca.pem"}, "ssl.ca.location: it needs security.protocol = SSL, not PLAINTEXT"),
        ({"security.protocol": "SASL_PLAINTEXT", **LOGIN, "ssl.ca.pem": "x"}, "ssl.ca.pem: it needs security.protocol = SASL_SSL"),
    ],
)
def test_an_option_that_cannot_be_obeyed_is_named_and_secrets_are_not_shown(options: dict[str, str], sentence: str) -> None:
    with pytest.raises(SecurityOptionError) as raised:
        ClientSecurity.of(options)
    assert str(raised.value).startswith(sentence)
    assert "secret" not in str(raised.value)


def test_settings_travel_to_other_processes_and_do_not_show_their_secrets() -> None:
    oauth = {
        "sasl.oauthbearer.token.endpoint.url": "https://id.example/token",
        "sasl.oauthbearer.client.id": "me",
        "sasl.oauthbearer.client.secret": "secret",
    }
    certificate = {"ssl.certificate.location": "me.pem", "ssl.key.pem": "-----BEGIN secret", "ssl.key.password": "secret"}
    for login in (LOGIN, {"sasl.mechanism": "OAUTHBEARER", **oauth}):
        security = ClientSecurity.of({"security.protocol": "SASL_SSL", **login, **certificate})
        assert "secret" not in repr(security)
        again = pickle.loads(pickle.dumps(security))
        assert again == security
        assert hash(again) == hash(security)


def test_an_end_that_comes_too_early_has_a_hint_what_may_be_wrong() -> None:
    with_tls = ClientSecurity.of({"security.protocol": "SSL"})
    with_both = ClientSecurity.of({"security.protocol": "SASL_SSL", **LOGIN})
    assert "speaks TLS" in NO_SECURITY.hint(0)
    assert "SASL_PLAINTEXT" in NO_SECURITY.hint(1)
    assert "SASL_SSL" in with_tls.hint(1)
    assert NO_SECURITY.hint(2) == with_tls.hint(0) == with_tls.hint(2) == with_both.hint(0) == with_both.hint(1) == ""
