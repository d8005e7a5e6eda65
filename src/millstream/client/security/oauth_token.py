"""Tokens for a login with OAUTHBEARER: read from a file, or asked for at an OpenID provider with a client's own id and secret (the grant
"client credentials" of RFC 6749).

A token that was asked for is shared by all connections of the process that have the same settings, until nine tenths of its life are over;
a file is read at every login, because whatever writes it keeps it fresh. Asking blocks. A provider that is down is no refusal: what may be
tried again later is a BrokerUnavailable, as for a broker that is down.
"""

import base64
import http.client
import json
import threading
import urllib.error
import urllib.parse
import urllib.request
from pathlib import Path
from time import monotonic
from typing import Final

from millstream.client.errors import AuthenticationFailed, BrokerUnavailable
from millstream.client.security.client_security import ClientSecurity
from millstream.client.security.sasl_settings import OAuthSettings

ASKING_TIMEOUT_S: Final = 30.0
_MOST_BYTES: Final = 1 << 20
_SHARE_OF_LIFE: Final = 0.9
_TOO_MANY_REQUESTS, _SERVER_ERROR = 429, 500


class _NoRedirect(urllib.request.HTTPRedirectHandler):
    """The id and the secret go to the endpoint that was configured, and to no other place that it names."""

    def redirect_request(self, *_: object) -> None:
        return None


_opener: Final = urllib.request.build_opener(_NoRedirect)
_tokens: dict[OAuthSettings, tuple[str, float]] = {}
_asking = threading.Lock()


def token_of(security: ClientSecurity) -> str:
    """The token for a login with these settings; empty if it takes none."""
    return fetch_token(security.sasl.oauth) if security.sasl is not None and security.sasl.oauth is not None else ""


def fetch_token(settings: OAuthSettings) -> str:
    """A token that is good now; AuthenticationFailed says why there is none, BrokerUnavailable why there is none for now."""
    url = urllib.parse.urlsplit(settings.token_url)
    if url.scheme == "file":
        try:
            return Path(urllib.parse.unquote(url.path)).read_text(encoding="utf-8").strip()
        except (OSError, UnicodeDecodeError) as error:
            raise AuthenticationFailed(f"there is no token in {url.path}: {error}") from None
    with _asking:
        token, good_until = _tokens.get(settings, ("", 0.0))
        if monotonic() >= good_until:
            token, life_s = _ask(settings)
            _tokens[settings] = token, monotonic() + _SHARE_OF_LIFE * life_s
        return token


def _ask(settings: OAuthSettings) -> tuple[str, float]:
    """A new token, and for how many seconds it is good."""
    body = {"grant_type": "client_credentials"} | ({"scope": settings.scope} if settings.scope else {})
    user = urllib.parse.quote(settings.client_id, safe="") + ":" + urllib.parse.quote(settings.client_secret, safe="")
    request = urllib.request.Request(  # noqa: S310 - the settings allow http and https alone
        settings.token_url,
        data=urllib.parse.urlencode(body).encode(),
        headers={
            "Authorization": "Basic " + base64.b64encode(user.encode()).decode(),
            "Content-Type": "application/x-www-form-urlencoded",
            "Accept": "application/json",
        },
    )
    where = f"the token endpoint {settings.token_url}"
    try:
        with _opener.open(request, timeout=ASKING_TIMEOUT_S) as answer:
            content = json.loads(answer.read(_MOST_BYTES))
        return str(content["access_token"]), float(content.get("expires_in", 0))
    except urllib.error.HTTPError as error:
        with error:
            if error.code >= _SERVER_ERROR or error.code == _TOO_MANY_REQUESTS:
                raise BrokerUnavailable(f"{where} has no token for now: {error.code} {error.reason}") from None
            raise AuthenticationFailed(
                f"{where} gave client {settings.client_id!r} no token: {error.code} {error.reason}; are client id, secret and scope right?"
            ) from None
    except OSError as error:
        raise BrokerUnavailable(f"{where} does not answer: {getattr(error, 'reason', error)}") from None
    except http.client.HTTPException as error:
        raise AuthenticationFailed(f"{where} does not speak HTTP, or broke off: {error!r}") from None
    except (ValueError, KeyError, TypeError, AttributeError):
        raise AuthenticationFailed(f"{where} did not answer with a JSON object that has an access_token") from None
