"""SCRAM (RFC 5802, RFC 7677) from the client's side: a login in which neither side sends the password, and each proves that it knows it.

    client  n,,n=USER,r=NONCE
    server  r=NONCE and more,s=SALT,i=ITERATIONS
    client  c=biws,r=NONCE and more,p=PROOF
    server  v=SIGNATURE

Names and passwords are taken as UTF-8 without further preparation, as Kafka takes them. The salted password, the only part that costs
time, is remembered: a login again, or on another connection, takes microseconds.
"""

import base64
import hmac
import secrets
from collections.abc import Generator
from functools import lru_cache
from hashlib import new, pbkdf2_hmac
from typing import Final

FEWEST_ITERATIONS: Final = 4096
"""What Kafka's clients insist on: a server that asks for fewer wants a proof that is cheap to guess from."""
MOST_ITERATIONS: Final = 1_000_000
_NO_CHANNEL_BINDING: Final = "n,,"
_HASHES: Final = {"SCRAM-SHA-256": "sha256", "SCRAM-SHA-512": "sha512"}


class ScramError(Exception):
    """The server's messages are not those of a server that knows the password."""


def scram(mechanism: str, username: str, password: str, *, nonce: str | None = None) -> Generator[bytes, bytes, None]:
    """The messages of a client: send what is yielded, give back what the server answered."""
    hash_name = _HASHES[mechanism]
    nonce = nonce or secrets.token_urlsafe(24)
    first_bare = f"n={_escape(username)},r={nonce}"
    server_first = _text((yield f"{_NO_CHANNEL_BINDING}{first_bare}".encode()))
    fields = _fields(server_first)
    if not fields.get("r", "").startswith(nonce) or fields["r"] == nonce:
        raise ScramError("the broker did not answer this login, but another one")
    salted = _salted(hash_name, password, _decoded(fields.get("s", "")), _iterations(fields.get("i", "")))
    final_bare = f"c={base64.b64encode(_NO_CHANNEL_BINDING.encode()).decode()},r={fields['r']}"
    signed = f"{first_bare},{server_first},{final_bare}".encode()
    client_key = hmac.digest(salted, b"Client Key", hash_name)
    signature = hmac.digest(new(hash_name, client_key).digest(), signed, hash_name)
    proof = bytes(left ^ right for left, right in zip(client_key, signature, strict=True))
    server_final = _fields(_text((yield f"{final_bare},p={base64.b64encode(proof).decode()}".encode())))
    if "e" in server_final:
        raise ScramError(f"the broker answered {server_final['e']!r}")
    expected = hmac.digest(hmac.digest(salted, b"Server Key", hash_name), signed, hash_name)
    if not hmac.compare_digest(_decoded(server_final.get("v", "")), expected):
        raise ScramError("the broker took the login but does not know the password itself: do not trust it")


@lru_cache(maxsize=16)
def _salted(hash_name: str, password: str, salt: bytes, iterations: int) -> bytes:
    return pbkdf2_hmac(hash_name, password.encode(), salt, iterations)


def _escape(name: str) -> str:
    return name.replace("=", "=3D").replace(",", "=2C")


def _text(message: bytes) -> str:
    try:
        return message.decode()
    except UnicodeDecodeError:
        raise ScramError("the broker's answer is not a text") from None


def _fields(message: str) -> dict[str, str]:
    return {part[:1]: part[2:] for part in message.split(",") if part[1:2] == "="}


def _iterations(text: str) -> int:
    if not text.isascii() or not text.isdigit() or len(text) > 9 or not FEWEST_ITERATIONS <= int(text) <= MOST_ITERATIONS:
        raise ScramError(f"the broker asks for {text[:12]!r} iterations, not for {FEWEST_ITERATIONS} to {MOST_ITERATIONS}")
    return int(text)


def _decoded(text: str) -> bytes:
    try:
        return base64.b64decode(text, validate=True)
    except ValueError:  # also of letters that are not ASCII
        raise ScramError("the broker's answer has a field that is not base64") from None
