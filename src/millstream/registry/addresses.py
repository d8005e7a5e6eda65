"""Where registries are, and with which name and password they are asked: read once, and never shown.

    [http[s]://][name:password@]host[:port][/prefix], ...

A name and a password may be percent-encoded here, and are decoded once. They need not be: all that stands before the last `@` of an address
is theirs, so `/`, `#`, `?` and `,` may stand in them as they are (an address whose prefix has an `@` writes it as %40). `user_info`, as in
Confluent's `basic.auth.user.info`, is taken as it is and holds for all addresses.

No message and no representation of an object shows a name or password, nor what might be a part of one.
"""

import base64
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Final
from urllib.parse import unquote, urlsplit

from millstream.address import Address
from millstream.errors import UsageError

_NEXT_ADDRESS: Final = re.compile(r",\s*(?=https?://)", re.IGNORECASE)
_NO_HOST: Final = re.compile(r"\s|^[^:]*%")
"""A percent sign stands before the zone of an IPv6 address, and elsewhere for a sign that no host has."""


@dataclass(frozen=True, slots=True)
class RegistryAddress:
    """One registry."""

    host: str
    port: int
    prefix: str = ""
    is_secure: bool = False
    authorization: str | None = field(default=None, repr=False)
    """The header that goes with every request."""

    def __str__(self) -> str:
        return f"{'https' if self.is_secure else 'http'}://{Address(self.host, self.port)}{self.prefix}"


Addresses = tuple[RegistryAddress, ...]


def parse_addresses(urls: str | Sequence[str | RegistryAddress], *, user_info: str = "", needs_scheme: bool = False) -> Addresses:
    """The addresses in a text, or in several; raises `UsageError`, which says what is wrong without saying what is secret."""
    given = [urls] if isinstance(urls, str) else urls
    texts = [each for each in given if isinstance(each, str)]
    # Where there is a secret, any piece of the text may be a piece of it; an @ may be written as %40, a token stand after a question mark.
    is_secret = any(sign in text for text in texts for sign in "@%?")
    parsed = [_parse(piece, user_info, needs_scheme, is_secret) for text in texts for piece in _split(text) if piece]
    found = (*(each for each in given if isinstance(each, RegistryAddress)), *parsed)
    if not found:
        raise UsageError("A registry needs an address: http://HOST:PORT, or several of them with commas between.")
    return found


def _split(text: str) -> Iterator[str]:
    for piece in _NEXT_ADDRESS.split(text):
        before, at, rest = piece.rpartition("@") if "://" in piece else ("", "", piece)
        first, *others = rest.split(",")
        yield (before + at + first).strip()
        yield from (other.strip() for other in others)


def _parse(url: str, user_info: str, needs_scheme: bool, is_secret: bool) -> RegistryAddress:
    scheme, separator, rest = url.partition("://")
    own_info, at, place = (rest if separator else url).rpartition("@")
    if at and user_info:
        raise UsageError("The name and password of a registry stand in its address and beside it: give them once.")
    try:
        parts = urlsplit(f"//{place}")
        host, port = parts.hostname, parts.port
    except ValueError:
        host, port = None, None
    is_known = scheme.lower() in ("http", "https") if separator else not needs_scheme
    if not is_known or not host or _NO_HOST.search(host) or parts.query or parts.fragment:
        shown = "One of the addresses" if is_secret else repr(url)
        raise UsageError(f"{shown} is no address of a registry: write http://HOST:PORT.")
    is_secure = separator != "" and scheme.lower() == "https"
    authorization = _basic(user_info) if user_info else _basic(unquote(own_info)) if at else None
    return RegistryAddress(host, port or (443 if is_secure else 80), parts.path.rstrip("/"), is_secure, authorization)


def _basic(user_info: str) -> str:
    pair = user_info if ":" in user_info else f"{user_info}:"
    return "Basic " + base64.b64encode(pair.encode()).decode()
