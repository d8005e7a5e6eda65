import pytest

from millstream.client.errors import SecurityOptionError
from millstream.client.security.tls_settings import Pem, TlsSettings, parse_tls

ONE_LINE = "-----BEGIN CERTIFICATE----- QUJD REVG -----END CERTIFICATE-----"


def test_the_certificate_and_the_name_are_checked_unless_said_otherwise() -> None:
    assert parse_tls({}) == TlsSettings()
    assert TlsSettings().checks_certificate
    assert TlsSettings().checks_hostname
    assert not parse_tls({"ssl.endpoint.identification.algorithm": ""}).checks_hostname
    assert not parse_tls({"ssl.endpoint.identification.algorithm": "none"}).checks_hostname
    assert not parse_tls({"enable.ssl.certificate.verification": "false"}).checks_hostname


def test_kafkas_and_librdkafkas_names_mean_the_same() -> None:
    librdkafka = {"ssl.ca.location": "ca.pem", "ssl.certificate.location": "me.pem", "ssl.key.location": "me.pem", "ssl.key.password": "x"}
    kafka = {
        "ssl.truststore.type": "PEM",
        "ssl.truststore.location": "ca.pem",
        "ssl.keystore.type": "PEM",
        "ssl.keystore.location": "me.pem",
        "ssl.key.password": "x",
    }
    assert parse_tls(librdkafka) == parse_tls(kafka)


def test_a_pem_in_an_option_may_have_spaces_for_its_ends_of_lines() -> None:
    found = parse_tls({"ssl.truststore.type": "PEM", "ssl.truststore.certificates": ONE_LINE})
    assert found.authorities == Pem(text="-----BEGIN CERTIFICATE-----\nQUJDREVG\n-----END CERTIFICATE-----\n")


def test_versions_may_be_chosen() -> None:
    assert parse_tls({"ssl.enabled.protocols": "TLSv1.3"}).versions == ("TLSv1.3",)


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"ssl.truststore.location": "trust.jks"}, "ssl.truststore.location: a store of type JKS (the default) cannot be read here: run"),
        ({"ssl.keystore.type": "PKCS12"}, "ssl.keystore.type: a store of type PKCS12 cannot be read here"),
        ({"ssl.ca.location": "a", "ssl.ca.pem": "b"}, "ssl.ca.pem: ssl.ca.location says the same"),
        ({"ssl.ca.pem": "secret"}, "ssl.ca.pem: it is not a PEM"),
        ({"ssl.certificate.location": "me.pem"}, "ssl.key.location: a certificate needs its key"),
        ({"ssl.key.location": "me.pem"}, "ssl.certificate.location: a certificate needs its key"),
        ({"enable.ssl.certificate.verification": "no"}, "enable.ssl.certificate.verification: 'no' is neither true nor false"),
        ({"ssl.endpoint.identification.algorithm": "ldap"}, "ssl.endpoint.identification.algorithm: 'ldap' is neither https"),
        ({"ssl.enabled.protocols": "TLSv1"}, "ssl.enabled.protocols: it may have TLSv1.2 and TLSv1.3"),
    ],
)
def test_what_cannot_be_is_named(options: dict[str, str], sentence: str) -> None:
    with pytest.raises(SecurityOptionError) as raised:
        parse_tls(options)
    assert str(raised.value).startswith(sentence)
    assert "secret" not in str(raised.value)


@pytest.mark.parametrize(
    ("options", "advice"),
    [
        (
            {"ssl.truststore.location": "trust.jks", "ssl.truststore.password": "secret"},
            "run `keytool -list -rfc -keystore trust.jks > ca.pem` and set ssl.truststore.type = PEM and ssl.truststore.location = ca.pem",
        ),
        (
            {"ssl.keystore.type": "PKCS12", "ssl.keystore.location": "my store"},
            "run `openssl pkcs12 -in 'my store' -out client.pem` and set",
        ),
        ({"ssl.keystore.location": "me.p12", "ssl.keystore.password": "secret"}, "run `openssl pkcs12 -in me.p12 -out client.pem` and set"),
        (
            {"ssl.keystore.location": "me.jks"},
            "run `keytool -importkeystore -srckeystore me.jks -destkeystore client.p12",
        ),
    ],
)
def test_a_store_of_javas_is_refused_with_the_command_that_makes_a_pem_of_it(options: dict[str, str], advice: str) -> None:
    with pytest.raises(SecurityOptionError) as raised:
        parse_tls(options)
    assert advice in str(raised.value)
    assert "secret" not in str(raised.value)
