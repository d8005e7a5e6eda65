"""Whom a client trusts and what it shows of itself in TLS: the options `ssl.*` of Kafka and librdkafka, as far as they mean PEM.

    who is trusted     ssl.ca.location, or ssl.truststore.location with ssl.truststore.type = PEM: a file
                       ssl.ca.pem, or ssl.truststore.certificates: the certificates themselves
                       none of these: the authorities that the machine trusts
    who we are         ssl.certificate.location and ssl.key.location, or ssl.keystore.location with ssl.keystore.type = PEM: files
                       ssl.certificate.pem and ssl.key.pem, or ssl.keystore.certificate.chain and ssl.keystore.key: the contents
                       ssl.key.password, if the key is encrypted

Java's key stores (JKS, PKCS12) are refused with the command that turns them into PEM. A PEM in an option may have spaces for its ends of
lines, as in Kafka's properties.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from shlex import quote
from typing import Final, NamedTuple

from millstream.client.errors import SecurityOptionError

VERSIONS: Final = ("TLSv1.2", "TLSv1.3")
_VERIFICATION: Final = "enable.ssl.certificate.verification"
_HOSTNAME: Final = "ssl.endpoint.identification.algorithm"
_PROTOCOLS: Final = "ssl.enabled.protocols"
_KEY_PASSWORD: Final = "ssl.key.password"  # noqa: S105 - the name of an option
_ONE_LINE_PEM: Final = re.compile(r"(-----BEGIN [A-Z ]+-----)\s*([A-Za-z0-9+/=\s]+?)\s*(-----END [A-Z ]+-----)")
TLS_OPTIONS: Final = frozenset({
    "ssl.ca.location", "ssl.ca.pem", "ssl.truststore.location", "ssl.truststore.certificates", "ssl.truststore.type",
    "ssl.truststore.password", "ssl.certificate.location", "ssl.certificate.pem", "ssl.key.location", "ssl.key.pem", _KEY_PASSWORD,
    "ssl.keystore.location", "ssl.keystore.certificate.chain", "ssl.keystore.key", "ssl.keystore.type", "ssl.keystore.password",
    _VERIFICATION, _HOSTNAME, _PROTOCOLS,
})  # fmt: skip


class Pem(NamedTuple):
    """Certificates or a key: the path of a file, or the text itself."""

    path: str = ""
    text: str = ""

    def __bool__(self) -> bool:
        return bool(self.path or self.text)


NO_PEM: Final = Pem()


@dataclass(frozen=True, slots=True)
class TlsSettings:
    """What the TLS of a client's connections is made of."""

    authorities: Pem = NO_PEM
    certificate: Pem = NO_PEM
    key: Pem = field(default=NO_PEM, repr=False)
    key_password: str = field(default="", repr=False)
    checks_certificate: bool = True
    checks_hostname: bool = True
    versions: tuple[str, ...] = VERSIONS


def parse_tls(options: Mapping[str, str]) -> TlsSettings:
    """The TLS that these options describe."""
    _check_store(options, "truststore")
    _check_store(options, "keystore")
    certificate = _pem(
        options, ("ssl.certificate.location", "ssl.keystore.location"), ("ssl.certificate.pem", "ssl.keystore.certificate.chain")
    )
    key = _pem(options, ("ssl.key.location", "ssl.keystore.location"), ("ssl.key.pem", "ssl.keystore.key"))
    if bool(certificate) != bool(key):
        missing = "ssl.key.location" if certificate else "ssl.certificate.location"
        raise SecurityOptionError(missing, "a certificate needs its key, and a key its certificate: give both")
    checks_certificate = _flag(options, _VERIFICATION)
    return TlsSettings(
        authorities=_pem(options, ("ssl.ca.location", "ssl.truststore.location"), ("ssl.ca.pem", "ssl.truststore.certificates")),
        certificate=certificate,
        key=key,
        key_password=options.get(_KEY_PASSWORD, ""),
        checks_certificate=checks_certificate,
        checks_hostname=_checks_hostname(options) and checks_certificate,
        versions=_versions(options),
    )


def _check_store(options: Mapping[str, str], store: str) -> None:
    location, kind = f"ssl.{store}.location", f"ssl.{store}.type"
    stated, path = options.get(kind, "").strip().upper(), options.get(location, "").strip()
    if stated == "PEM" or (not stated and (not path or path.endswith((".pem", ".crt")))):
        return
    own = stated or ("PKCS12" if path.endswith((".p12", ".pfx")) else "JKS")
    pem, command = _conversion(store, own, path or f"{store}.{'p12' if own == 'PKCS12' else 'jks'}")
    what = f"a store of type {own if stated or own == 'PKCS12' else 'JKS (the default)'} cannot be read here"
    advice = f"run `{command}` and set {kind} = PEM and {location} = {pem}"
    raise SecurityOptionError(kind if stated else location, f"{what}: {advice}")


def _conversion(store: str, kind: str, path: str) -> tuple[str, str]:
    """The PEM file that a store of Java's becomes, and the command that makes it; keytool and openssl ask for the passwords."""
    if store == "truststore":
        return "ca.pem", f"keytool -list -rfc -keystore {quote(path)} > ca.pem"
    if kind == "PKCS12":
        return "client.pem", f"openssl pkcs12 -in {quote(path)} -out client.pem"
    to_pkcs12 = f"keytool -importkeystore -srckeystore {quote(path)} -destkeystore client.p12 -deststoretype PKCS12"
    return "client.pem", f"{to_pkcs12} && openssl pkcs12 -in client.p12 -out client.pem"


def _pem(options: Mapping[str, str], paths: tuple[str, ...], texts: tuple[str, ...]) -> Pem:
    given = [name for name in (*paths, *texts) if options.get(name, "").strip()]
    if len(given) > 1:
        raise SecurityOptionError(given[1], f"{given[0]} says the same: give one of the two")
    if not given:
        return NO_PEM
    value = options[given[0]].strip()
    if given[0] in paths:
        return Pem(path=value)
    if "-----BEGIN" not in value:
        raise SecurityOptionError(given[0], "it is not a PEM: that begins with -----BEGIN")
    return Pem(text=_ONE_LINE_PEM.sub(_with_lines, value) + "\n")


def _with_lines(pem: re.Match[str]) -> str:
    content = "".join(pem[2].split())
    lines = [content[start : start + 64] for start in range(0, len(content), 64)]
    return "\n".join((pem[1], *lines, pem[3]))


def _flag(options: Mapping[str, str], name: str) -> bool:
    text = options.get(name, "true").strip().lower()
    if text not in {"true", "false"}:
        raise SecurityOptionError(name, f"{text!r} is neither true nor false")
    return text == "true"


def _checks_hostname(options: Mapping[str, str]) -> bool:
    text = options.get(_HOSTNAME, "https").strip().lower()
    if text not in {"https", "none", ""}:
        raise SecurityOptionError(_HOSTNAME, f"{text!r} is neither https (the name is checked) nor none")
    return text == "https"


def _versions(options: Mapping[str, str]) -> tuple[str, ...]:
    wanted = [version.strip() for version in options.get(_PROTOCOLS, ",".join(VERSIONS)).split(",")]
    if not wanted or not set(wanted).issubset(VERSIONS):
        raise SecurityOptionError(_PROTOCOLS, f"it may have {' and '.join(VERSIONS)}, separated by commas")
    return tuple(version for version in VERSIONS if version in wanted)
