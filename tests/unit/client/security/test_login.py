from typing import Any

import pytest

from millstream.address import Address
from millstream.client.codecs.request import MessageRequest
from millstream.client.errors import AuthenticationFailed
from millstream.client.security.client_security import ClientSecurity
from millstream.client.security.login import SHORTEST_LIFE_S, log_in
from millstream.wire.api import ApiKey
from millstream.wire.responses.sasl_authenticate import SaslAuthenticateResponse
from millstream.wire.responses.sasl_handshake import SaslHandshakeResponse

PLACE = Address("broker", 9093)
BASE = {"security.protocol": "SASL_PLAINTEXT", "sasl.username": "alice", "sasl.password": "secret"}
PLAIN = ClientSecurity.of({**BASE, "sasl.mechanism": "PLAIN"})
SCRAM = ClientSecurity.of({**BASE, "sasl.mechanism": "SCRAM-SHA-256"})
OAUTH = ClientSecurity.of(
    {
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanism": "OAUTHBEARER",
        "sasl.oauthbearer.token.endpoint.url": "file:///token",
        "sasl.oauthbearer.extensions": "a=b",
    }
)


class Login:
    """Takes the steps of a login with the answers of a broker that a test thinks up."""

    def __init__(self, security: ClientSecurity, token: str = "") -> None:
        self._steps = log_in(security, PLACE, token)
        self.asked: list[MessageRequest[Any]] = [next(self._steps)]
        self.lifetime_s: float | None = None
        self.is_over = False

    def answer(self, answer: object) -> None:
        try:
            self.asked.append(self._steps.send(answer))
        except StopIteration as end:
            self.lifetime_s, self.is_over = end.value, True


def test_a_mechanism_is_agreed_on_first_and_then_the_password_sent() -> None:
    login = Login(PLAIN)
    login.answer(SaslHandshakeResponse())
    login.answer(SaslAuthenticateResponse())
    assert [(each.api_key, each.fields) for each in login.asked] == [
        (ApiKey.SASL_HANDSHAKE, {"mechanism": "PLAIN"}),
        (ApiKey.SASL_AUTHENTICATE, {"auth_bytes": b"\0alice\0secret"}),
    ]
    assert login.is_over
    assert login.lifetime_s is None


@pytest.mark.parametrize(("lifetime_ms", "renewed_after_s"), [(60_000, 51.0), (100, SHORTEST_LIFE_S)])
def test_a_login_is_renewed_before_its_life_is_over_and_not_twice_in_a_second(lifetime_ms: int, renewed_after_s: float) -> None:
    login = Login(PLAIN)
    login.answer(SaslHandshakeResponse())
    login.answer(SaslAuthenticateResponse(session_lifetime_ms=lifetime_ms))
    assert login.lifetime_s == renewed_after_s


def test_a_token_goes_out_with_its_extensions_and_a_refusal_is_asked_for_its_reason() -> None:
    login = Login(OAUTH, "the-token")
    login.answer(SaslHandshakeResponse())
    assert login.asked[-1].fields == {"auth_bytes": b"n,,\x01auth=Bearer the-token\x01a=b\x01\x01"}
    login.answer(SaslAuthenticateResponse(auth_bytes=b'{"status":"invalid_token"}'))
    assert login.asked[-1].fields == {"auth_bytes": b"\x01"}
    with pytest.raises(AuthenticationFailed, match="refused the login of client '' by OAUTHBEARER: expired"):
        login.answer(SaslAuthenticateResponse(error_code=58, error_message="expired"))


def test_a_wrong_password_is_said_with_the_brokers_words_and_without_the_password() -> None:
    login = Login(PLAIN)
    login.answer(SaslHandshakeResponse())
    with pytest.raises(AuthenticationFailed, match="broker:9093 refused the login of user 'alice' by PLAIN: no such user") as raised:
        login.answer(SaslAuthenticateResponse(error_code=58, error_message="no such user"))
    assert "secret" not in str(raised.value)


def test_a_broker_that_plays_scram_wrong_is_not_trusted() -> None:
    login = Login(SCRAM)
    login.answer(SaslHandshakeResponse())
    with pytest.raises(AuthenticationFailed, match="the login of user 'alice' at broker:9093 by SCRAM-SHA-256 failed: the broker did not"):
        login.answer(SaslAuthenticateResponse(auth_bytes=b"r=x,s=AAAA,i=4096"))


@pytest.mark.parametrize(
    ("error_code", "sentence"),
    [
        (33, "does not take PLAIN: set sasl.mechanism to SCRAM-SHA-256 or OAUTHBEARER"),
        (34, "takes no login on this port: set security.protocol to PLAINTEXT"),
        (35, "error code 35"),
    ],
)
def test_a_broker_that_does_not_take_the_mechanism_says_what_it_takes(error_code: int, sentence: str) -> None:
    with pytest.raises(AuthenticationFailed, match=sentence):
        Login(PLAIN).answer(SaslHandshakeResponse(error_code, ("SCRAM-SHA-256", "OAUTHBEARER")))
