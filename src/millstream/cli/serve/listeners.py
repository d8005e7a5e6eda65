"""The listener options of Kafka's `server.properties`: the one address that a broker listens on, and the one that it advertises to clients.

Kafka takes several listeners with names, each with a protocol. Millstream listens once, without encryption. So of `listeners` those for
controllers (`controller.listener.names`) are left out, because nothing here connects to them, and exactly one has to remain whose
protocol is PLAINTEXT. More than that, or another protocol, is refused: to leave a listener closed that clients connect to would not help.
"""

from typing import NamedTuple

from millstream.address import Address, check_advertised, parse_listen_address
from millstream.errors import UsageError

PLAINTEXT = "PLAINTEXT"


class Listeners(NamedTuple):
    """What the options say; None where they say nothing."""

    listen: Address | None
    advertise: Address | None


def take_listeners(options: dict[str, str]) -> Listeners:
    """Take `listeners` and `advertised.listeners` out of the options."""
    controllers = {name.upper() for name in _elements(options.get("controller.listener.names", ""))}
    protocols = _protocols(options.get("listener.security.protocol.map", ""))
    listen = _only_one("listeners", options.pop("listeners", ""), controllers, protocols)
    advertise = _only_one("advertised.listeners", options.pop("advertised.listeners", ""), controllers, protocols)
    if listen and advertise and listen[0] != advertise[0]:
        raise UsageError(f"advertised.listeners names {advertise[0]}, and listeners {listen[0]}: they have to be the same listener.")
    return Listeners(listen and listen[1], advertise and check_advertised(advertise[1], "advertised.listeners"))


def _only_one(option: str, text: str, controllers: set[str], protocols: dict[str, str]) -> tuple[str, Address] | None:
    found = [_parse(option, element) for element in _elements(text)]
    clients = [(name, address) for name, address in found if name not in controllers]
    if not found:
        return None
    if len(clients) != 1:
        names = ", ".join(name for name, _ in clients) or "none"
        raise UsageError(f"{option} must have one listener for clients, and has {names}: Millstream listens on one address.")
    name, address = clients[0]
    protocol = protocols.get(name, name)
    if protocol != PLAINTEXT:
        raise UsageError(
            f"{option} has {name}, which speaks {protocol}: only {PLAINTEXT} is supported (see listener.security.protocol.map)."
        )
    return name, address


def _parse(option: str, element: str) -> tuple[str, Address]:
    name, separator, place = element.partition("://")
    if not separator or not name:
        raise UsageError(f"{option} takes NAME://HOST:PORT, for example {PLAINTEXT}://127.0.0.1:9092, and got {element!r}.")
    return name.upper(), parse_listen_address(place, option)


def _protocols(text: str) -> dict[str, str]:
    protocols = {}
    for element in _elements(text):
        name, separator, protocol = element.partition(":")
        if not separator:
            raise UsageError(f"listener.security.protocol.map takes NAME:PROTOCOL, and got {element!r}.")
        protocols[name.strip().upper()] = protocol.strip().upper()
    return protocols


def _elements(text: str) -> list[str]:
    return [element.strip() for element in text.split(",") if element.strip()]
