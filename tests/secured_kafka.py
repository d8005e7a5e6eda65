"""Apache Kafka with TLS and logins: one broker with four listeners, certificates of the tests' authority, and one user for all mechanisms.

The certificate is for `localhost` and not for 127.0.0.1. A login by PLAIN lasts a second and a half, so that clients have to renew it.
"""

from collections.abc import Mapping
from pathlib import Path

from tests.brokers import KafkaBroker
from tests.certificates import Authority
from tests.ports import free_port

USER = "alice"
PASSWORD = 'a "quoted" word'
LISTENERS = ("SASL_SSL", "SSL", "SASL_PLAINTEXT")
_SECURITY = "org.apache.kafka.common.security"


class SecuredKafka(KafkaBroker):
    """Its ordinary address is a plain listener; `at` has the others."""

    def __init__(self, directory: Path, authority: Authority, options: Mapping[str, object]) -> None:
        super().__init__(directory, options)
        self.authority = authority
        self._server = authority.issue("localhost")
        for mechanism in ("SCRAM-SHA-256", "SCRAM-SHA-512"):
            self.format_flags += ["--add-scram", f"{mechanism}=[name={USER},password={PASSWORD}]"]
        self._ports = {listener: free_port() for listener in LISTENERS}

    def at(self, listener: str, *, host: str = "localhost") -> str:
        """Where this listener is."""
        return f"{host}:{self._ports[listener]}"

    def client_options(self, mechanism: str = "SCRAM-SHA-512") -> dict[str, str]:
        """The options of a client of the listener SASL_SSL."""
        return {
            "security.protocol": "SASL_SSL",
            "ssl.ca.location": str(self.authority.ca),
            "sasl.mechanism": mechanism,
            "sasl.username": USER,
            "sasl.password": PASSWORD,
        }

    def _write_properties(self) -> None:
        plain = {"PLAINTEXT": self.bootstrap_servers, "CONTROLLER": f"{self.host}:{self.controller_port}"}
        secured = {listener: self.at(listener) for listener in LISTENERS}
        quoted = PASSWORD.replace('"', '\\"')
        self.options = {
            "listeners": ",".join(f"{name}://{place}" for name, place in (plain | secured).items()),
            "advertised.listeners": ",".join(f"{name}://{place}" for name, place in (plain | secured).items() if name != "CONTROLLER"),
            "listener.security.protocol.map": "CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT,"
            + ",".join(f"{name}:{name}" for name in LISTENERS),
            "ssl.keystore.type": "PEM",
            "ssl.keystore.location": str(self._server),
            "ssl.truststore.type": "PEM",
            "ssl.truststore.location": str(self.authority.ca),
            "listener.name.ssl.ssl.client.auth": "required",
            "sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-256,SCRAM-SHA-512,OAUTHBEARER",
            **self.options,
        }
        modules = {
            "plain": f'plain.PlainLoginModule required user_{USER}="{quoted}"',
            "scram-sha-256": "scram.ScramLoginModule required",
            "scram-sha-512": "scram.ScramLoginModule required",
            "oauthbearer": 'oauthbearer.OAuthBearerLoginModule required unsecuredLoginStringClaim_sub="broker"',
        }
        for listener in ("sasl_ssl", "sasl_plaintext"):
            self.options[f"listener.name.{listener}.plain.connections.max.reauth.ms"] = "1500"
            for mechanism, module in modules.items():
                line = f"{_SECURITY}.{module};".replace("\\", "\\\\")  # once more: properties have escapes, too
                self.options[f"listener.name.{listener}.{mechanism}.sasl.jaas.config"] = line
        super()._write_properties()
