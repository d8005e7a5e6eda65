"""What a producer has sent in a transaction: counted when it is committed, and not at all if it is aborted.

A transaction that is neither (its producer was fenced, or killed) leaves its messages without an answer, so that they are unknown.
"""

from typing import NamedTuple

from millstream.audited.tier import Tier


class Sent(NamedTuple):
    """Messages of one time that were written, as a tier counts them."""

    token: int
    topic: str
    timestamp_ms: int
    size: int
    partition: int
    messages: int = 1


class TransactionHold:
    """Passes on to a tier what was sent; within a transaction, when that has ended."""

    def __init__(self, tier: Tier) -> None:
        self._tier = tier
        self._held: list[Sent] | None = None

    def begin(self) -> None:
        """A transaction was begun."""
        self._held = []

    def note(self, sent: Sent) -> None:
        """Messages were written."""
        if self._held is None:
            self._count(sent)
        else:
            self._held.append(sent)

    def end(self, *, is_committed: bool) -> None:
        """The transaction was committed or aborted."""
        held, self._held = self._held or [], None
        for sent in held:
            if is_committed:
                self._count(sent)
            else:
                self._tier.failed(sent.token)

    def _count(self, sent: Sent) -> None:
        self._tier.sent(sent.token, sent.topic, sent.timestamp_ms, sent.size, partition=sent.partition, count=sent.messages)
