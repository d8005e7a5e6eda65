"""Millstream: a Kafka for Python people. The public names of the client live here, loaded when first asked for.

Nothing is imported by importing this package: `millstream serve` starts without a client (PEP 562).
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from millstream.client.consumer import Consumer as Consumer
    from millstream.client.deduplicator import Deduplicator as Deduplicator
    from millstream.client.message import ConsumedMessage as ConsumedMessage
    from millstream.client.message import Message as Message
    from millstream.client.message import MessageSet as MessageSet
    from millstream.client.producer import Producer as Producer
    from millstream.client.simple_consumer import SimpleConsumer as SimpleConsumer
    from millstream.client.stream import MessageStream as MessageStream

_HOMES = {
    "ConsumedMessage": "millstream.client.message",
    "Consumer": "millstream.client.consumer",
    "Deduplicator": "millstream.client.deduplicator",
    "Message": "millstream.client.message",
    "MessageSet": "millstream.client.message",
    "MessageStream": "millstream.client.stream",
    "Producer": "millstream.client.producer",
    "SimpleConsumer": "millstream.client.simple_consumer",
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
