"""Network addresses as people write them: `HOST:PORT`, an IPv6 address in brackets, several separated by commas.

Only syntax, nothing is resolved here. Where a server listens, the host may be left out (every interface) and the port may be 0 (a free
one); where brokers are, the port may be left out (Kafka's).
"""

from collections.abc import Iterable
from typing import Final, NamedTuple

from millstream.errors import UsageError

KAFKA_PORT: Final = 9092
EVERY_INTERFACE: Final = "0.0.0.0"  # noqa: S104 - only used where a person left the host out on purpose
WILDCARDS: Final = {EVERY_INTERFACE: "127.0.0.1", "::": "::1", "": "127.0.0.1"}
"""Hosts that stand for every interface, and where this machine itself is reached then."""


class Address(NamedTuple):
    """Host and port."""

    host: str
    port: int

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"

    @property
    def on_this_machine(self) -> "Address":
        """Where processes of this machine reach what listens here."""
        return Address(WILDCARDS.get(self.host, self.host), self.port)


def parse_listen_address(text: str, source: str) -> Address:
    """Where to listen; `source` names the flag or option it came from, for the error message."""
    split = _split(text.strip())
    if split is None:
        raise UsageError(f"{source} got {text!r}: write an IPv6 address in brackets, for example [::1]:9092.")
    host, port = split
    if port is None:
        raise UsageError(f"{source} needs HOST:PORT, for example 127.0.0.1:9092, and got {text!r}.")
    if any(character in ", /" for character in host):
        raise UsageError(f"{source} got {text!r}: one host, without commas, spaces and slashes.")
    if not _is_port(port):
        raise UsageError(f"{source} got {text!r}: the port must be a number from 0 to 65535.")
    return Address(host or EVERY_INTERFACE, int(port))


def check_advertised(address: Address, source: str) -> Address:
    """The address, if clients can connect to it: every one of them would take "all interfaces" for its own machine."""
    if address.port == 0:
        raise UsageError(f"{source} has port 0: clients need the port that they can really connect to.")
    if address.host in WILDCARDS:
        raise UsageError(f"{source} has no host that clients can use: they cannot connect to {address.host}.")
    return address


def parse_bootstrap_servers(servers: str | Iterable[str]) -> tuple[Address, ...]:
    """The addresses in `"host:port,host:port"`, or in a sequence of such texts."""
    texts = servers.split(",") if isinstance(servers, str) else [part for text in servers for part in text.split(",")]
    addresses = tuple(_parse_server(text.strip()) for text in texts if text.strip())
    if not addresses:
        raise UsageError(f"no broker is named in {servers!r}: give HOST:PORT, for example localhost:9092")
    return addresses


def _parse_server(text: str) -> Address:
    split = _split(text)
    if split is None:
        raise UsageError(f"{text!r} is no address: write an IPv6 address in brackets, for example [::1]:9092")
    host, port = split
    if not host or (port and (not _is_port(port) or int(port) == 0)):
        raise UsageError(f"{text!r} is no address: give HOST:PORT with a port from 1 to 65535, for example localhost:9092")
    return Address(host, int(port) if port else KAFKA_PORT)


def _split(text: str) -> tuple[str, str | None] | None:
    """Host and port, the port None where there is no colon; None for an IPv6 address that is not in brackets, or half in them."""
    if text.startswith("["):
        host, closing, rest = text[1:].partition("]")
        if not closing or (rest and not rest.startswith(":")):
            return None
        return host, rest[1:] if rest else None
    host, colon, port = text.partition(":")
    return None if ":" in port else (host, port if colon else None)


def _is_port(text: str) -> bool:
    return text.isascii() and text.isdigit() and int(text) <= 65535
