"""A network address as a person types it: `HOST:PORT`, `[IPv6]:PORT`, or `:PORT` for every interface.

Only syntax: nothing is resolved here, and port 0 ("pick a free one") is a matter of whoever listens.
"""

from typing import NamedTuple

from millstream.errors import UsageError

EVERY_INTERFACE = "0.0.0.0"  # noqa: S104 - only used where a person left the host out on purpose
_NOWHERE = (EVERY_INTERFACE, "::")


class Address(NamedTuple):
    """Host and port."""

    host: str
    port: int

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


def parse_address(text: str, source: str) -> Address:
    """The address in `text`; `source` names the flag or option it came from, for the error message."""
    host, separator, port = text.strip().rpartition(":")
    if not separator:
        raise UsageError(f"{source} needs HOST:PORT, for example 127.0.0.1:9092, and got {text!r}.")
    if host.startswith("[") and host.endswith("]"):
        host = host[1:-1]
    elif ":" in host:
        raise UsageError(f"{source} got {text!r}: write an IPv6 address in brackets, for example [::1]:9092.")
    if any(character in ", /" for character in host):
        raise UsageError(f"{source} got {text!r}: one host, without commas, spaces and slashes.")
    if not port.isascii() or not port.isdigit() or int(port) > 65535:
        raise UsageError(f"{source} got {text!r}: the port must be a number from 0 to 65535.")
    return Address(host or EVERY_INTERFACE, int(port))


def check_advertised(address: Address, source: str) -> Address:
    """The address, if clients can be told it: every one of them would take "all interfaces" for its own machine."""
    if address.port == 0:
        raise UsageError(f"{source} has port 0: clients need the port that they can really connect to.")
    if address.host in _NOWHERE:
        raise UsageError(f"{source} has no host that clients can be told: they cannot connect to {address.host}.")
    return address
