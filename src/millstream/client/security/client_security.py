"""How a client protects its connections: Kafka's and librdkafka's options about TLS and SASL, checked once and understood alike.

    ClientSecurity.of({"security.protocol": "SASL_SSL", "sasl.mechanism": "SCRAM-SHA-512",
                       "sasl.username": "alice", "sasl.password": "...", "ssl.ca.location": "/etc/ssl/kafka-ca.pem"})

Options that are not about security are left to others; of those that are, one that is unknown, cannot be obeyed or contradicts another is
an error that names it. Nothing is guessed: a password without `security.protocol` is refused, where Kafka's clients ignore it. Nothing is
read, opened or sent here. The values can be compared, hashed and pickled, and do not show their secrets.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final, Self

from millstream.client.errors import SecurityOptionError
from millstream.client.security.sasl_settings import SASL_OPTIONS, SaslSettings, parse_sasl
from millstream.client.security.tls_settings import TLS_OPTIONS, TlsSettings, parse_tls

PROTOCOLS: Final = ("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL")
PREFIXES: Final = ("security.", "ssl.", "sasl.", "enable.ssl.", "enable.sasl.")
"""How the options begin that are read here."""
_WITHOUT_EFFECT: Final = frozenset({
    "sasl.login.callback.handler.class", "sasl.login.connect.timeout.ms", "sasl.login.read.timeout.ms", "sasl.login.refresh.buffer.seconds",
    "sasl.login.refresh.min.period.seconds", "sasl.login.refresh.window.factor", "sasl.login.refresh.window.jitter",
    "sasl.login.retry.backoff.max.ms", "sasl.login.retry.backoff.ms", "security.providers", "ssl.keymanager.algorithm", "ssl.protocol",
    "ssl.provider", "ssl.secure.random.implementation", "ssl.trustmanager.algorithm",
})  # fmt: skip
"""They tune Java's client, or name its class for what is done here anyway."""
_KNOWN: Final = frozenset({"security.protocol"}) | TLS_OPTIONS | SASL_OPTIONS | _WITHOUT_EFFECT


@dataclass(frozen=True, slots=True)
class ClientSecurity:
    """TLS, a login, both or neither."""

    tls: TlsSettings | None = None
    sasl: SaslSettings | None = None

    @classmethod
    def of(cls, options: Mapping[str, str]) -> Self:
        """What these options ask for, by Kafka's and librdkafka's names; SecurityOptionError names the one that is wrong."""
        given = {name: value for name, value in options.items() if name.startswith(PREFIXES)}
        for name in given.keys() - _KNOWN:
            raise SecurityOptionError(name, "Kafka's clients have no such option, or it cannot be obeyed here")
        protocol = given.get("security.protocol", PROTOCOLS[0]).strip().upper()
        if protocol not in PROTOCOLS:
            raise SecurityOptionError("security.protocol", f"{protocol!r} is none of {', '.join(PROTOCOLS)}")
        has_tls, has_sasl = protocol.endswith("SSL"), protocol.startswith("SASL")
        if not has_tls:
            _refuse(given, TLS_OPTIONS, f"security.protocol = {'SASL_SSL' if has_sasl else 'SSL'}, not {protocol}")
        if not has_sasl:
            _refuse(given, SASL_OPTIONS, f"security.protocol = {'SASL_SSL' if has_tls else 'SASL_SSL or SASL_PLAINTEXT'}, not {protocol}")
        return cls(parse_tls(given) if has_tls else None, parse_sasl(given) if has_sasl else None)

    def hint(self, answered: int) -> str:
        """What may be wrong if a broker ends the connection after so many answers, as it does with clients whose security is another."""
        if self.tls is None and answered == 0:
            return "; if this port speaks TLS, set security.protocol to SSL or SASL_SSL"
        if self.sasl is None and answered == 1:  # ApiVersions is answered before a login
            return f"; if this port wants a login, set security.protocol to SASL_{'SSL' if self.tls else 'PLAINTEXT'}"
        return ""

    @property
    def has_token(self) -> bool:
        """Whether a login needs a token, which may have to be asked for."""
        return self.sasl is not None and self.sasl.oauth is not None


NO_SECURITY: Final = ClientSecurity()
"""Plain TCP without a login."""


def _refuse(given: Iterable[str], names: Iterable[str], needed: str) -> None:
    for name in sorted(set(given).intersection(names)):
        raise SecurityOptionError(name, f"it needs {needed}")
