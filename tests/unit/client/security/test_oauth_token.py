import base64
import json
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from threading import Thread
from time import monotonic
from urllib.parse import parse_qs

import pytest

from millstream.client.errors import AuthenticationFailed, BrokerUnavailable
from millstream.client.security import oauth_token
from millstream.client.security.oauth_token import fetch_token
from millstream.client.security.sasl_settings import OAuthSettings


class Provider(HTTPServer):
    """An OpenID provider: gives numbered tokens to the client `me` with the password `a/b`."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Asked)
        self.url = f"http://127.0.0.1:{self.server_port}/token"
        self.answer: object = None
        self.scopes: list[list[str]] = []


class _Asked(BaseHTTPRequestHandler):
    server: Provider

    def do_POST(self) -> None:
        form = parse_qs(self.rfile.read(int(self.headers["Content-Length"])).decode())
        self.server.scopes.append(form.get("scope", []))
        is_known = self.headers["Authorization"] == "Basic " + base64.b64encode(b"me:a%2Fb").decode()
        is_asked_rightly = form["grant_type"] == ["client_credentials"] and is_known
        if self.path == "/moved":
            self.send_response(302)
            self.send_header("Location", self.server.url)
        else:
            self.send_response(200 if is_asked_rightly else 401)
        self.end_headers()
        answer = self.server.answer or {"access_token": f"token-{len(self.server.scopes)}", "expires_in": 3600}
        self.wfile.write(json.dumps(answer).encode())

    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture
def provider() -> Iterator[Provider]:
    with Provider() as made:
        thread = Thread(target=made.serve_forever, args=(0.01,))
        thread.start()
        yield made
        made.shutdown()
        thread.join()


def test_a_token_is_asked_for_once_and_shared_while_it_is_good(provider: Provider, monkeypatch: pytest.MonkeyPatch) -> None:
    settings = OAuthSettings(provider.url, "me", "a/b", "all")
    assert [fetch_token(settings), fetch_token(settings)] == ["token-1", "token-1"]
    assert provider.scopes == [["all"]]
    later = monotonic() + 3500
    monkeypatch.setattr(oauth_token, "monotonic", lambda: later)
    assert fetch_token(settings) == "token-2"


def test_a_client_that_is_not_known_gets_a_sentence_without_its_secret(provider: Provider) -> None:
    with pytest.raises(AuthenticationFailed, match="gave client 'me' no token: 401") as raised:
        fetch_token(OAuthSettings(provider.url, "me", "hidden"))
    assert "hidden" not in str(raised.value)


@pytest.mark.parametrize("answer", [{"token": "x"}, ["x"], {"access_token": "x", "expires_in": []}])
def test_an_answer_that_is_no_token_is_said_to_be_none(provider: Provider, answer: object) -> None:
    provider.answer = answer
    with pytest.raises(AuthenticationFailed, match="did not answer with a JSON object that has an access_token"):
        fetch_token(OAuthSettings(provider.url, "me", "a/b", "other"))


def test_the_secret_does_not_follow_a_redirection(provider: Provider) -> None:
    with pytest.raises(AuthenticationFailed, match="gave client 'me' no token: 302"):
        fetch_token(OAuthSettings(provider.url.replace("/token", "/moved"), "me", "a/b"))
    assert len(provider.scopes) == 1


def test_an_endpoint_that_is_not_there_is_named() -> None:
    with pytest.raises(BrokerUnavailable, match=r"the token endpoint http://127.0.0.1:1/token does not answer: "):
        fetch_token(OAuthSettings("http://127.0.0.1:1/token", "me", "a/b"))


@pytest.mark.parametrize("code", [429, 500, 503])
def test_an_endpoint_that_has_no_token_for_now_is_no_refusal(provider: Provider, monkeypatch: pytest.MonkeyPatch, code: int) -> None:
    monkeypatch.setattr(_Asked, "do_POST", lambda asked: asked.send_error(code))
    with pytest.raises(BrokerUnavailable, match=f"has no token for now: {code}"):
        fetch_token(OAuthSettings(provider.url, "me", "a/b"))


def test_an_endpoint_that_speaks_something_else_is_named(provider: Provider, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_Asked, "do_POST", lambda asked: asked.wfile.write(b"\x15\x03\x03\x00\x02\r\n\r\n"))
    with pytest.raises(AuthenticationFailed, match=r"does not speak HTTP"):
        fetch_token(OAuthSettings(provider.url, "me", "a/b"))


def test_a_file_is_read_at_every_login(tmp_path: Path) -> None:
    path = tmp_path / "a token"
    settings = OAuthSettings(f"file://{str(path).replace(' ', '%20')}")
    with pytest.raises(AuthenticationFailed, match="there is no token in"):
        fetch_token(settings)
    for token in ("one", "two"):
        path.write_text(token + "\n")
        assert fetch_token(settings) == token
