"""Produce requests that come in a row and look alike are handled together: the fast lane of producers.

A producer sends the same bytes again and again: only the correlation id, the partition and the records differ. When a request for one
partition has been handled, its connection may remember its shape. Each following request that has exactly that shape is not
decoded; its batch is kept until the connection has handled what it received (or a request of another kind comes), and then the batches of
each partition are appended by one call and all answers sent as one. A request that came alone may be appended with those of other
connections (`produce_turn`).

    api key, version | correlation id | client id ... topic, 1 partition | partition | size, records | no tags
    ---- same ----     differs          -------------- same -----------    differs     differs         same

What the requests mean is decided where it always is: `Log.append_run_as_leader` checks every batch as it does a single one. Requests stay
in order, because whatever does not match ends the run first. Nothing is kept beyond the callback, so the views into the receive buffer
are good.
"""

import struct
from collections.abc import Callable, Sequence
from typing import Final, Protocol, Self

from millstream.broker.handlers.produce.produce_answer import Asked
from millstream.broker.network.api import Request
from millstream.broker.network.connection import Connection
from millstream.log.log import Log
from millstream.wire.primitives import INT32, read_unsigned_varint
from millstream.wire.produce import FIRST_FLEXIBLE, ProduceRequest, ProduceTopic

_KEY_VERSION_AND_CORRELATION: Final = struct.Struct(">ii")
_INDEX_AND_SIZE: Final = struct.Struct(">ii")
_SAME_FROM: Final = 8
_NO_TAGS: Final = memoryview(b"\x00\x00\x00")
"""After the records: no tagged fields of the partition, the topic and the request."""


PartitionBatches = Sequence[tuple[int, memoryview | None]]
"""Partitions of one topic and a batch for each."""
TakenRequest = tuple[int, tuple[int, memoryview]]
"""One request of a run: correlation id, and the partition with its batch."""


class ProduceShape:
    """What the requests of a run have in common."""

    __slots__ = ("_is_flexible", "_key_and_version", "_same", "_same_until", "asked", "key", "topic")

    def __init__(self, frame: memoryview, produce: ProduceRequest, asked: Asked) -> None:
        [topic] = produce.topics
        [(_, records)] = topic.partitions
        assert records is not None
        self.topic = ProduceTopic(topic.name, topic.topic_id, [])
        """What they are for; the batches are views that do not last."""
        self.key = topic.key
        self.asked = asked
        """What all of them ask for, but for the correlation id."""
        self._is_flexible = asked.version >= FIRST_FLEXIBLE
        if self._is_flexible:
            after_index = ((len(records) + 1).bit_length() + 6) // 7 + len(records) + len(_NO_TAGS)
        else:
            after_index = INT32.size + len(records)
        self._same_until = len(frame) - after_index - INT32.size
        self._same = bytes(frame[_SAME_FROM : self._same_until])
        self._key_and_version = _KEY_VERSION_AND_CORRELATION.unpack_from(frame)[0]

    @classmethod
    def of(cls, request: Request, produce: ProduceRequest, asked: Asked) -> Self | None:
        """The shape of a request that was decoded; None if it is not for one partition, or not written in the usual way."""
        if len(produce.topics) != 1 or len(produce.topics[0].partitions) != 1:
            return None
        index, records = produce.topics[0].partitions[0]
        if records is None:
            return None
        shape = cls(request.frame, produce, asked)
        taken = shape.match(request.frame)
        is_found_again = taken is not None and taken[1][0] == index and len(taken[1][1]) == len(records)
        return shape if is_found_again else None

    def match(self, frame: memoryview) -> TakenRequest | None:
        """What is of its own in a request of this shape; None for any other request."""
        position = self._same_until
        if len(frame) < position + _INDEX_AND_SIZE.size or frame[_SAME_FROM:position] != self._same:
            return None
        key_and_version, correlation_id = _KEY_VERSION_AND_CORRELATION.unpack_from(frame)
        if key_and_version != self._key_and_version:
            return None
        index, size = _INDEX_AND_SIZE.unpack_from(frame, position)
        start = position + _INDEX_AND_SIZE.size
        if self._is_flexible:
            size, start = read_unsigned_varint(frame, position + INT32.size)
            end = start + size - 1
            return (correlation_id, (index, frame[start:end])) if size and frame[end:] == _NO_TAGS else None
        return (correlation_id, (index, frame[start:])) if start + size == len(frame) else None


class Turn(Protocol):
    """What the connections of this turn of the loop have in common (`produce_turn`)."""

    def keep(self, connection: Connection, shape: ProduceShape, correlation_id: int, place: tuple[int, memoryview]) -> bool:
        """Append and answer a single request at the end of the turn, with those of others; False if it is not to wait."""

    def finish(self) -> None:
        """Append and answer what is kept."""


class ProduceRun:
    """The requests of one connection that wait for the end of their run."""

    __slots__ = ("_append", "_batches", "_connection", "_correlation_ids", "_is_kept", "_log", "_shape", "_turn")

    def __init__(self, connection: Connection, shape: ProduceShape, log: Log, append: "AppendRun", turn: Turn) -> None:
        """`log` is that of one partition; all partitions of a topic have the same options."""
        self._connection = connection
        self._shape = shape
        self._log = log
        self._append = append
        self._turn = turn
        self._is_kept = False
        """Whether a request may still be kept for the end of a turn."""
        self._correlation_ids: list[int] = []
        self._batches: list[tuple[int, memoryview]] = []

    def take(self, frame: memoryview) -> bool:
        """Take the request, if it belongs to the run. None does where records are looked into, nor once the topic was deleted."""
        if not self._log.takes_runs:
            return False
        taken = self._shape.match(frame)
        if taken is None:
            return False
        self._correlation_ids.append(taken[0])
        self._batches.append(taken[1])
        return True

    def finish(self) -> None:
        """Append and answer what was taken."""
        if self._is_kept:
            self._is_kept = False
            self._turn.finish()
        if self._batches:
            correlation_ids, batches = self._correlation_ids, self._batches
            self._correlation_ids, self._batches = [], []
            self._append(self._connection, self._shape, correlation_ids, batches)

    def finish_soon(self) -> None:
        """The same, for a single request with those of other connections."""
        batches, correlation_ids = self._batches, self._correlation_ids
        if len(batches) == 1 and self._turn.keep(self._connection, self._shape, correlation_ids[0], batches[0]):
            self._is_kept = True
            batches.clear()
            correlation_ids.clear()
        else:
            self.finish()


AppendRun = Callable[[Connection, ProduceShape, Sequence[int], Sequence[tuple[int, memoryview]]], None]
"""Appends the batches and answers the requests of these correlation ids, each of which brought one of them."""
