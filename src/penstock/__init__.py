"""Penstock: a Kafka for Python people. The public names of the client live here, loaded when first asked for.

Nothing is imported by importing this package: `penstock serve` starts without a client (PEP 562).
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from penstock.client.consumer import Consumer as Consumer
    from penstock.client.deduplicator import Deduplicator as Deduplicator
    from penstock.client.message import ConsumedMessage as ConsumedMessage
    from penstock.client.message import Message as Message
    from penstock.client.message import MessageSet as MessageSet
    from penstock.client.producer import Producer as Producer
    from penstock.client.simple_consumer import SimpleConsumer as SimpleConsumer
    from penstock.client.stream import MessageStream as MessageStream

_HOMES = {
    "ConsumedMessage": "penstock.client.message",
    "Consumer": "penstock.client.consumer",
    "Deduplicator": "penstock.client.deduplicator",
    "Message": "penstock.client.message",
    "MessageSet": "penstock.client.message",
    "MessageStream": "penstock.client.stream",
    "Producer": "penstock.client.producer",
    "SimpleConsumer": "penstock.client.simple_consumer",
}

__all__ = [
    "ConsumedMessage",
    "Consumer",
    "Deduplicator",
    "Message",
    "MessageSet",
    "MessageStream",
    "Producer",
    "SimpleConsumer",
]


def __getattr__(name: str) -> Any:
    home = _HOMES.get(name)
    if home is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(home), name)


def __dir__() -> list[str]:
    return sorted([*globals(), *_HOMES])
