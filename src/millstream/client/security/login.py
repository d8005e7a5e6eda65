"""How a client logs in (SASL): which requests it sends and what the answers mean, without the waiting.

    steps = log_in(security, address, token)
    request = next(steps)                    # SaslHandshake, then SaslAuthenticate until the mechanism is through
    request = steps.send(answer) ...
    StopIteration.value                      # for how long the login is good, in seconds; None: for as long as the connection lives

A broker may limit the life of a login (`connections.max.reauth.ms`, or that of a token): then the same steps are taken again on the same
connection before it is over (KIP-368), and nothing else is sent in between.
"""

from collections.abc import Generator
from typing import Any, Final

from millstream.address import Address
from millstream.client.codecs.request import MessageRequest
from millstream.client.conversation import Conversation
from millstream.client.errors import AuthenticationFailed
from millstream.client.security.client_security import ClientSecurity
from millstream.client.security.sasl_settings import OAUTHBEARER, PLAIN, SaslSettings
from millstream.client.security.scram import ScramError, scram
from millstream.wire.api import ApiKey

Steps = Generator[MessageRequest[Any], Any, "float | None"]
Exchange = Generator[bytes, bytes, None]

SHARE_OF_LIFE: Final = 0.85
"""How much of a login's life passes before it is renewed: what was sent just before must be through before it ends."""
SHORTEST_LIFE_S: Final = 1.1
"""A broker refuses a second login within a second."""
_UNSUPPORTED_MECHANISM: Final = 33
_ILLEGAL_STATE: Final = 34


def log_in(security: ClientSecurity, address: Address, token: str = "") -> Steps:
    """The steps of a login; AuthenticationFailed if it is refused. OAUTHBEARER needs a token (`client.oauth_token`)."""
    sasl = security.sasl
    assert sasl is not None, "without SASL there is no login"
    exchange = _exchange(sasl, token)
    message = next(exchange)
    shaken = yield MessageRequest(ApiKey.SASL_HANDSHAKE, {"mechanism": sasl.mechanism}, lowest=1)
    if shaken.error_code:
        raise _no_such_login(security, address, error_code=shaken.error_code, offered=shaken.mechanisms)
    while True:
        answer = yield MessageRequest(ApiKey.SASL_AUTHENTICATE, {"auth_bytes": message})
        if answer.error_code:
            raise AuthenticationFailed(
                f"the broker at {address} refused the login of {sasl.who} by {sasl.mechanism}: "
                f"{answer.error_message or f'error code {answer.error_code}'}"
            )
        try:
            message = exchange.send(bytes(answer.auth_bytes))
        except StopIteration:
            break
        except ScramError as error:
            raise AuthenticationFailed(f"the login of {sasl.who} at {address} by {sasl.mechanism} failed: {error}") from None
    lifetime_s = int(answer.session_lifetime_ms) / 1000
    return max(SHARE_OF_LIFE * lifetime_s, SHORTEST_LIFE_S) if lifetime_s > 0 else None


def require_login(conversation: Conversation, security: ClientSecurity, address: Address) -> None:
    """Refuse to go on with a broker that does not know of logins."""
    if not conversation.knows(ApiKey.SASL_HANDSHAKE):
        raise _takes_no_login(security, address)


def _takes_no_login(security: ClientSecurity, address: Address) -> AuthenticationFailed:
    """For a broker that does not know of logins."""
    plain = "SSL" if security.tls else "PLAINTEXT"
    return AuthenticationFailed(f"the broker at {address} takes no login on this port: set security.protocol to {plain}")


def _exchange(sasl: SaslSettings, token: str) -> Exchange:
    if sasl.mechanism == PLAIN:
        return _plain(sasl)
    return _oauthbearer(sasl, token) if sasl.mechanism == OAUTHBEARER else scram(sasl.mechanism, sasl.username, sasl.password)


def _plain(sasl: SaslSettings) -> Exchange:
    """RFC 4616."""
    yield f"\0{sasl.username}\0{sasl.password}".encode()


def _oauthbearer(sasl: SaslSettings, token: str) -> Exchange:
    """RFC 7628, with the extensions of KIP-342."""
    assert sasl.oauth is not None
    fields = [("auth", f"Bearer {token}"), *sasl.oauth.extensions]
    refusal = yield ("n,,\x01" + "".join(f"{name}={value}\x01" for name, value in fields) + "\x01").encode()
    if refusal:
        yield b"\x01"  # the broker says why in its answer to this


def _no_such_login(security: ClientSecurity, address: Address, *, error_code: int, offered: tuple[str, ...]) -> AuthenticationFailed:
    assert security.sasl is not None
    mechanism = security.sasl.mechanism
    if error_code == _UNSUPPORTED_MECHANISM:
        return AuthenticationFailed(f"the broker at {address} does not take {mechanism}: set sasl.mechanism to {' or '.join(offered)}")
    if error_code == _ILLEGAL_STATE:
        return _takes_no_login(security, address)
    return AuthenticationFailed(f"the broker at {address} did not begin a login by {mechanism}: error code {error_code}")
