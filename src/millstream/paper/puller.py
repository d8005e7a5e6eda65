"""Pulling messages for one stream, through a librdkafka consumer of its own. Used only by the thread that iterates the stream.

One consumer per stream: a stream that is not read fills its own queue and stalls no other. The consumer is made when there is something to
pull, and made anew when the brokers have changed, because librdkafka remembers only the addresses it was given.

Messages are taken in batches and wrapped at one go, which costs a fraction of what a step per message would: at a million messages a second
every line of Python counts.
"""

from collections.abc import Iterable
from itertools import repeat
from typing import Any, Final

from millstream.paper.librdkafka import Settings, consume_failure, open_consumer, positions
from millstream.paper.message import ConsumedMessage

BATCH_SIZE: Final = 200
"""Few enough for messages to be gone before the garbage collector has looked at them more than once."""


class Puller:
    """A source of messages from some partitions of a topic."""

    def __init__(self, topic: str, *, group: str, options: Settings) -> None:
        self._topic = topic
        self._group = group
        self._options = options
        self._brokers = ""
        self._consumer: Any = None

    def assign(self, brokers: str, offsets: Iterable[tuple[int, int]]) -> None:
        """Pull these partitions from now on, each from its offset, and no others."""
        if brokers != self._brokers:
            self.close()
            self._brokers = brokers
        if self._consumer is None:
            self._consumer = open_consumer(brokers, self._group, self._options)
        self._consumer.assign(positions(self._topic, offsets))

    def pull(self, timeout_s: float) -> list[ConsumedMessage]:
        """The messages that are there, or the first that comes within the time; raises what stands among them as an error."""
        records = self._consumer.consume(BATCH_SIZE, 0)
        if not records:
            first = self._consumer.poll(timeout_s)
            records = [] if first is None else [first]
        payloads = [record.value() for record in records if record.error() is None]
        if len(payloads) < len(records):
            records = self._without_errors(records)
        return list(map(tuple.__new__, repeat(ConsumedMessage), zip(payloads, records, strict=True)))

    def close(self) -> None:
        """Pull no more."""
        consumer, self._consumer = self._consumer, None
        if consumer is not None:
            consumer.close()

    def _without_errors(self, records: list[Any]) -> list[Any]:
        for record in records:
            if record.error() is not None and (failure := consume_failure(record.error(), record)) is not None:
                raise failure
        return [record for record in records if record.error() is None]
