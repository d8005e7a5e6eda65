"""Millstream: a Kafka for Python people. The public names of the client live here, loaded when first asked for.

Nothing is imported by importing this package: `millstream serve` starts without a client (PEP 562).
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from millstream.audited.settings import AuditSettings as AuditSettings
    from millstream.paper.consumer import Consumer as Consumer
    from millstream.paper.deduplicator import Deduplicator as Deduplicator
    from millstream.paper.message import ConsumedMessage as ConsumedMessage
    from millstream.paper.message import Message as Message
    from millstream.paper.message import MessageSet as MessageSet
    from millstream.paper.producer import Producer as Producer
    from millstream.paper.simple_consumer import SimpleConsumer as SimpleConsumer
    from millstream.paper.stream import MessageStream as MessageStream
    from millstream.tables.topic_scan import TopicScan as TopicScan
    from millstream.tables.topic_scan import read_table as read_table
    from millstream.tables.topic_scan import scan as scan

_HOMES = {
    "AuditSettings": "millstream.audited.settings",
    "ConsumedMessage": "millstream.paper.message",
    "Consumer": "millstream.paper.consumer",
    "Deduplicator": "millstream.paper.deduplicator",
    "Message": "millstream.paper.message",
    "MessageSet": "millstream.paper.message",
    "MessageStream": "millstream.paper.stream",
    "Producer": "millstream.paper.producer",
    "SimpleConsumer": "millstream.paper.simple_consumer",
    "TopicScan": "millstream.tables.topic_scan",
    "read_table": "millstream.tables.topic_scan",
    "scan": "millstream.tables.topic_scan",
}

__all__ = list(_HOMES)


def __getattr__(name: str) -> Any:
    home = _HOMES.get(name)
    if home is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(home), name)


def __dir__() -> list[str]:
    return sorted([*globals(), *_HOMES])
