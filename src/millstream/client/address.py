"""Where brokers are: `host:port`, several of them separated by commas, an IPv6 address in brackets.

Only syntax, nothing is resolved here. The port may be left out, it is Kafka's then.
"""

from collections.abc import Iterable
from typing import Final, NamedTuple

from millstream.errors import UsageError

KAFKA_PORT: Final = 9092


class Address(NamedTuple):
    """Host and port of a broker."""

    host: str
    port: int

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


def parse_bootstrap_servers(servers: str | Iterable[str]) -> tuple[Address, ...]:
    """The addresses in `"host:port,host:port"`, or in a sequence of such texts."""
    texts = servers.split(",") if isinstance(servers, str) else [part for text in servers for part in text.split(",")]
    addresses = tuple(_parse(text.strip()) for text in texts if text.strip())
    if not addresses:
        raise UsageError(f"no broker is named in {servers!r}: give HOST:PORT, for example localhost:9092")
    return addresses


def _parse(text: str) -> Address:
    if text.startswith("["):
        host, closing, rest = text[1:].partition("]")
        port = rest.removeprefix(":")
        if not closing or not host or (rest and not rest.startswith(":")):
            raise UsageError(f"{text!r} is no address: write an IPv6 address as [::1]:9092")
    else:
        host, _, port = text.partition(":")
        if ":" in port:
            raise UsageError(f"{text!r} is no address: write an IPv6 address in brackets, for example [::1]:9092")
    if not host or (port and not (port.isascii() and port.isdigit() and 0 < int(port) < 65536)):
        raise UsageError(f"{text!r} is no address: give HOST:PORT with a port from 1 to 65535, for example localhost:9092")
    return Address(host, int(port) if port else KAFKA_PORT)
