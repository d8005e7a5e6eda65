"""Where confluent-kafka enters the mirror: its clients, with the security that our own connections have, and its errors as ours.

It is used for what librdkafka does well and is no matter of bytes: membership of a group, transactions, merging record by record, offsets
of groups.
"""

import base64
import json
import logging
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Final

from confluent_kafka import Consumer, KafkaException, Producer
from confluent_kafka import KafkaError as LibrdkafkaError
from confluent_kafka.admin import AdminClient

from millstream.client.errors import BrokerUnavailable, ClientError
from millstream.client.security.client_security import ClientSecurity
from millstream.client.security.oauth_token import fetch_token
from millstream.client.security.sasl_settings import OAuthSettings
from millstream.client.security.tls_settings import TlsSettings
from millstream.errors import UsageError

logger = logging.getLogger(__name__)

CLIENT_ID: Final = "millstream-mirror"
_UNUSABLE: Final = frozenset({LibrdkafkaError._INVALID_ARG, LibrdkafkaError._UNKNOWN_PROTOCOL})
_FENCED: Final = frozenset({LibrdkafkaError._FENCED, LibrdkafkaError.INVALID_PRODUCER_EPOCH, LibrdkafkaError.PRODUCER_FENCED})
_FINAL: Final = frozenset({
    LibrdkafkaError.TRANSACTIONAL_ID_AUTHORIZATION_FAILED, LibrdkafkaError.CLUSTER_AUTHORIZATION_FAILED,
    LibrdkafkaError.INVALID_TRANSACTION_TIMEOUT, LibrdkafkaError._UNSUPPORTED_FEATURE,
})  # fmt: skip
_LOG_LEVEL: Final = 2
"""Critical. On the next one it logs each attempt to reach a broker that is down, twenty a second; our own connections say that once."""
_TOKEN_LIFE_S: Final = 300.0
"""For how long a token is taken to be good that does not say so."""


class LibrdkafkaFailed(ClientError):
    """What librdkafka was asked for failed; `code` is its number."""

    def __init__(self, text: str, code: int) -> None:
        super().__init__(text)
        self.code = code

    @property
    def is_fenced(self) -> bool:
        """Whether another process has taken this one's place."""
        return self.code in _FENCED

    @property
    def is_final(self) -> bool:
        """Whether trying again does not help, not even with a new client."""
        return self.code in _FINAL

    @property
    def is_unexplained(self) -> bool:
        """Whether it only says that the client met a fatal error before: `poll` of that client says which one."""
        return self.code == LibrdkafkaError._FATAL


def open_consumer(servers: str, security: ClientSecurity, settings: Mapping[str, Any]) -> Consumer:
    """A consumer that commits nothing by itself."""
    with plain_errors(servers):
        return Consumer({**_options(servers, security), "enable.auto.commit": False, **settings}, logger=logger)


def open_producer(servers: str, security: ClientSecurity, settings: Mapping[str, Any]) -> Producer:
    """A producer."""
    with plain_errors(servers):
        return Producer({**_options(servers, security), **settings}, logger=logger)


def open_admin(servers: str, security: ClientSecurity) -> AdminClient:
    """A client for topics and groups."""
    with plain_errors(servers):
        return AdminClient(_options(servers, security), logger=logger)


@contextmanager
def plain_errors(servers: str) -> Iterator[None]:
    """Turns an exception of librdkafka into one of ours, with the cluster that it is about."""
    try:
        yield
    except KafkaException as exception:
        error: LibrdkafkaError = exception.args[0]
        text = error.str().removeprefix("Broker: ").removeprefix("Local: ").rstrip(".")
        if error.code() in _UNUSABLE:
            raise UsageError(f"a client of {servers} cannot be made: {text}") from None
        if error.code() in {LibrdkafkaError._TRANSPORT, LibrdkafkaError._ALL_BROKERS_DOWN, LibrdkafkaError._TIMED_OUT}:
            raise BrokerUnavailable(f"no broker answers at {servers}: {text}") from None
        raise LibrdkafkaFailed(f"at {servers}: {text}", error.code()) from None


def _options(servers: str, security: ClientSecurity) -> dict[str, Any]:
    options: dict[str, Any] = {"bootstrap.servers": servers, "client.id": CLIENT_ID, "log_level": _LOG_LEVEL}
    tls, sasl = security.tls, security.sasl
    options["security.protocol"] = "_".join(part for part in ("SASL" if sasl else "", "SSL" if tls else "PLAINTEXT") if part)
    if tls is not None:
        options |= _tls_options(tls)
    if sasl is not None:
        options["sasl.mechanisms"] = sasl.mechanism
        if sasl.oauth is not None:
            options["oauth_cb"] = _token_callback(sasl.oauth)
        else:
            options |= {"sasl.username": sasl.username, "sasl.password": sasl.password}
    return options


def _tls_options(tls: TlsSettings) -> dict[str, Any]:
    options: dict[str, Any] = {
        "enable.ssl.certificate.verification": tls.checks_certificate,
        "ssl.endpoint.identification.algorithm": "https" if tls.checks_hostname else "none",
    }
    for name, pem in (("ssl.ca", tls.authorities), ("ssl.certificate", tls.certificate), ("ssl.key", tls.key)):
        if pem.path:
            options[f"{name}.location"] = pem.path
        elif pem.text:
            options[f"{name}.pem"] = pem.text
    if tls.key_password:
        options["ssl.key.password"] = tls.key_password
    return options


def _token_callback(oauth: OAuthSettings) -> Any:
    def give(_: str) -> tuple[str, float, str, dict[str, str]]:
        token = fetch_token(oauth)
        return token, _end_of(token), oauth.client_id, dict(oauth.extensions)

    return give


def _end_of(token: str) -> float:
    """When the token ends, as seconds since 1970; the claim `exp` if it is a JWT."""
    try:
        payload = token.split(".")[1]
        return float(json.loads(base64.urlsafe_b64decode(payload + "=" * (-len(payload) % 4)))["exp"])
    except (IndexError, ValueError, KeyError, TypeError):
        return time.time() + _TOKEN_LIFE_S
