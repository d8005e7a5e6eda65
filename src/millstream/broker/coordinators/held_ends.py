"""Answers to EndTxn that wait a moment for the markers of the transaction.

Kafka answers when the end is decided. A client that goes on at once is then answered CONCURRENT_TRANSACTIONS and pauses for 20 ms or more,
though the markers are replicated within a few: clients do not have to be that patient here. The answer means what it means in Kafka, and is
not held for longer than `HELD_S`: leaders may be away for minutes.
"""

from collections.abc import Callable
from typing import Final

from millstream.broker.coordinators.context import Answerable
from millstream.broker.deadlines import Deadline, Deadlines
from millstream.coordinator_shard import Fields
from millstream.errors import KafkaError

HELD_S: Final = 0.1
Decided = Callable[[Answerable, Fields], None]
"""Takes the answer to an end that was decided, and whose it is."""


class HeldEnds:
    """The answers that are held, by transactional id."""

    def __init__(self) -> None:
        self._held: dict[str, tuple[Answerable, Fields, Deadline]] = {}
        self._deadlines = Deadlines()

    def hold(self, transactional_id: str, reply: Answerable, fields: Fields) -> None:
        """Keep the answer until the transaction is complete."""
        self.release(transactional_id)
        deadline = self._deadlines.add(HELD_S, lambda: self.release(transactional_id))
        self._held[transactional_id] = (reply, fields, deadline)

    def release(self, transactional_id: str) -> None:
        """Send the answer, if one is held."""
        held = self._held.pop(transactional_id, None)
        if held is not None:
            reply, fields, deadline = held
            deadline.cancel()
            reply.answer(fields)


class EndReply:
    """Waits for what is decided about the end of a transaction."""

    __slots__ = ("_decided", "_reply")

    def __init__(self, reply: Answerable, decided: Decided) -> None:
        self._reply = reply
        self._decided = decided

    def answer(self, fields: Fields) -> None:
        """An end that is decided may be held, an error is answered at once."""
        if fields["error_code"]:
            self._reply.answer(fields)
        else:
            self._decided(self._reply, fields)

    def fail(self, error: KafkaError) -> None:
        """The coordinator cannot say."""
        self._reply.fail(error)
