"""TLS against a peer in this process: what goes through it, and what is said when it fails."""

import asyncio
import os
import socket
import ssl
import struct
from pathlib import Path

import pytest

from millstream.address import Address
from millstream.client.async_connection import AsyncConnection
from millstream.client.codecs.produce import BatchFor, ProduceRequest
from millstream.client.connection import Connection
from millstream.client.errors import AuthenticationFailed, BrokerUnavailable, SecurityOptionError
from millstream.client.security.client_security import ClientSecurity
from millstream.client.security.tls import context_for
from millstream.client.security.tls_settings import parse_tls
from millstream.wire.api import ApiKey
from tests.certificates import Authority
from tests.unit.client.peer import Behave, answer_api_versions, peer, receive_frame

PRODUCE = (ApiKey.PRODUCE, 0, 11)
LARGE = 3_000_000


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return Authority(tmp_path_factory.mktemp("certificates"))


def with_tls(authority: Authority, behave: Behave, name: str = "localhost", *, days: int = 1) -> Behave:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(authority.issue(name, days=days))

    def accept(connection: socket.socket) -> None:
        try:
            with context.wrap_socket(connection, server_side=True) as wrapped:
                behave(wrapped)
        except OSError:
            pass  # the client did not like the certificate

    return accept


def trusting(authority: Authority, **options: str) -> ClientSecurity:
    named = {name.replace("_", "."): value for name, value in options.items()}
    return ClientSecurity.of({"security.protocol": "SSL", "ssl.ca.location": str(authority.ca), **named})


def test_large_requests_and_answers_go_through_both_kinds_of_connections(authority: Authority) -> None:
    batch = os.urandom(LARGE)
    received: list[bytes] = []

    def take_and_give(connection: socket.socket) -> None:
        answer_api_versions(connection, PRODUCE)
        received.append(receive_frame(connection))
        reply = received[-1][4:8] + bytes(LARGE)
        connection.sendall(struct.pack(">i", len(reply)) + reply)

    class Raw(ProduceRequest):
        def decode(self, version: int, body: memoryview) -> int:  # type: ignore[override]
            return len(body)

    request = Raw([BatchFor("clicks", 0, batch), BatchFor("clicks", 1, b"small")])
    security = trusting(authority)

    def ask_and_wait(address: Address) -> int:
        with Connection(Address("localhost", address.port), security=security) as connection:
            return connection.call(request)

    with peer(with_tls(authority, take_and_give)) as address:
        assert ask_and_wait(address) >= LARGE - 1

    async def ask(address: Address) -> int:
        async with await AsyncConnection.open(Address("localhost", address.port), security=security) as connection:
            return await connection.send(request)

    with peer(with_tls(authority, take_and_give)) as address:
        assert asyncio.run(ask(address)) >= LARGE - 1
    assert all(batch in each for each in received)
    assert len(received) == 2


def refuse(security: ClientSecurity, behave: Behave, *, host: str = "localhost") -> list[str]:
    """What both kinds of connections say."""

    async def open_(address: Address) -> None:
        await AsyncConnection.open(Address(host, address.port), security=security, timeout_s=5)

    said = []
    with peer(behave) as address, pytest.raises((AuthenticationFailed, BrokerUnavailable)) as raised:
        Connection(Address(host, address.port), security=security, timeout_s=5)
    said.append(str(raised.value))
    with peer(behave) as address, pytest.raises((AuthenticationFailed, BrokerUnavailable)) as raised:
        asyncio.run(open_(address))
    return [*said, str(raised.value)]


def test_a_certificate_of_another_authority_is_not_trusted(authority: Authority, tmp_path: Path) -> None:
    for sentence in refuse(trusting(Authority(tmp_path)), with_tls(authority, lambda _: None)):
        assert "is not trusted" in sentence
        assert "set ssl.ca.location" in sentence


def test_a_certificate_that_is_out_of_date_is_said_to_be_so(authority: Authority) -> None:
    old = with_tls(authority, lambda _: None, days=-1)
    for sentence in refuse(trusting(authority), old):
        assert "is out of date (certificate has expired): renew it there" in sentence


def test_a_certificate_for_another_name_is_refused_and_the_check_can_be_left_out(authority: Authority) -> None:
    other = with_tls(authority, lambda connection: answer_api_versions(connection, PRODUCE), name="elsewhere")
    for sentence in refuse(trusting(authority), other):
        assert "is for another name: connect by the name that is in it" in sentence
    with peer(other) as address:
        Connection(address, security=trusting(authority, ssl_endpoint_identification_algorithm="none")).close()


def test_a_plain_port_is_said_to_be_one(authority: Authority) -> None:
    for sentence in refuse(trusting(authority), lambda connection: connection.sendall(b"\0\0\0\1 no TLS here")):
        assert "set security.protocol to PLAINTEXT or SASL_PLAINTEXT" in sentence
    for sentence in refuse(trusting(authority), lambda connection: connection.close()):
        assert "set security.protocol to PLAINTEXT or SASL_PLAINTEXT" in sentence


def test_a_port_with_tls_is_said_to_be_one_to_a_plain_client(authority: Authority) -> None:
    for sentence in refuse(ClientSecurity(), with_tls(authority, lambda _: None)):
        assert "set security.protocol to SSL or SASL_SSL" in sentence


def test_a_file_that_changed_makes_another_context(authority: Authority, tmp_path: Path) -> None:
    path = tmp_path / "ca.pem"
    path.write_bytes(authority.ca.read_bytes())
    tls = parse_tls({"ssl.ca.location": str(path)})
    first = context_for(tls)
    assert context_for(tls) is first
    os.utime(path, ns=(1, 1))
    assert context_for(tls) is not first


def test_certificate_and_key_may_be_given_as_texts(authority: Authority) -> None:
    content = authority.issue("client", password="of the key").read_text()
    end = content.index("-----BEGIN CERTIFICATE")
    options = {"ssl.key.pem": content[:end], "ssl.certificate.pem": content[end:]}
    context_for(parse_tls({**options, "ssl.key.password": "of the key"}))
    for wrong in ({}, {"ssl.key.password": "another"}):
        with pytest.raises(SecurityOptionError, match=r"ssl\.certificate\.location: certificate and key cannot be read from the option"):
            context_for(parse_tls({**options, **wrong}))


def test_a_file_without_certificates_is_named(tmp_path: Path) -> None:
    for path in (tmp_path / "missing.pem", tmp_path / "empty.pem"):
        with pytest.raises(SecurityOptionError, match=f"ssl.ca.location: no certificates can be read from {path}"):
            context_for(parse_tls({"ssl.ca.location": str(path)}))
        (tmp_path / "empty.pem").touch()
