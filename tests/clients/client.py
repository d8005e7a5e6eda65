"""What the three Python clients have in common, so that one test can be run with each of them.

    with client.writer(broker, codec="zstd") as writer:      offsets = writer.write(topic, messages)
    with client.reader(broker, topic, start=0) as reader:    messages = reader.read(10); reader.seek(3); ...

Nothing here knows groups: readers assign their partitions and commit nothing.
"""

from collections.abc import Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from typing import Literal, Protocol

from tests.brokers import Broker

Start = int | Literal["earliest", "latest"]
CODECS = {"none": 0, "gzip": 1, "snappy": 2, "lz4": 3, "zstd": 4}


@dataclass(frozen=True)
class Message:
    """A message as written or as read; what a writer does not know is left at its default."""

    value: bytes | None
    key: bytes | None = None
    headers: tuple[tuple[str, bytes | None], ...] = ()
    timestamp: int | None = None
    partition: int = 0
    offset: int = -1

    def without_place(self) -> "Message":
        """The message without what only the broker knows."""
        return replace(self, timestamp=None, offset=-1)


@dataclass(frozen=True)
class FetchLimits:
    """What a consumer lets into one answer, of all partitions together and of each; None is the client's own default."""

    max_bytes: int | None = None
    partition_max_bytes: int | None = None

    def named(self, max_bytes: str, partition_max_bytes: str) -> dict[str, int]:
        """Those that are set, by the names that a client has for them."""
        named = {max_bytes: self.max_bytes, partition_max_bytes: self.partition_max_bytes}
        return {name: limit for name, limit in named.items() if limit is not None}


class Refused(Exception):
    """The broker, or the client for it, refused; `code` is Kafka's."""

    def __init__(self, code: int, text: str) -> None:
        super().__init__(f"{code}: {text}")
        self.code = code


class Writer(Protocol):
    """A producer."""

    def write(self, topic: str, messages: Sequence[Message]) -> list[int]:
        """Send all, wait for all; returns their offsets (-1 with acks=0). Raises `Refused` for the first that failed."""


class Reader(Protocol):
    """A consumer of one partition of one topic."""

    def read(self, count: int) -> list[Message]:
        """Wait for so many messages."""

    def seek(self, offset: int) -> None:
        """Go on from another offset."""

    def settle(self) -> None:
        """Wait until the place where the reader starts is fixed (for `latest`)."""


class Client(Protocol):
    """A client library."""

    name: str
    codecs: frozenset[str]

    def writer(
        self, broker: Broker, *, codec: str = "none", acks: int = -1, idempotent: bool = False, max_request_bytes: int = 1 << 20
    ) -> AbstractContextManager[Writer]:
        """A producer that gathers messages into batches."""

    def reader(
        self, broker: Broker, topic: str, *, start: Start = "earliest", partition: int = 0, max_bytes: int = 1 << 20
    ) -> AbstractContextManager[Reader]:
        """A consumer that starts at an offset or an end; `max_bytes` bounds what it fetches of the partition at once."""

    def read_topic(self, broker: Broker, topic: str, *, partitions: int, count: int, limits: FetchLimits) -> list[Message]:
        """So many messages of all partitions, from the beginning of each, by one consumer."""

    def offset_for_time(self, broker: Broker, topic: str, timestamp: int) -> int | None:
        """The first offset at or after that time, or None."""

    def ends(self, broker: Broker, topic: str) -> tuple[int, int]:
        """First offset and the one after the last."""
