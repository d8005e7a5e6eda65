"""An answer that waits until what was appended is committed (acks=all), or on disk where a flush is due.

Nothing runs while it waits for a watermark: it is called by it, or by a timer when the client's time is up.
"""

import asyncio
from collections.abc import Callable, Sequence
from functools import partial
from typing import NamedTuple

from millstream.broker.network.connection import PendingReply
from millstream.cluster.leader import Leader
from millstream.cluster.partition import Partition
from millstream.cluster.watermark import Watermark
from millstream.errors import KafkaError, NotLeaderOrFollower, RequestTimedOut


class Wait(NamedTuple):
    """A batch that may not be acknowledged before a watermark has reached an offset, and its place in the answer."""

    watermark: Watermark
    offset: int
    appended_to: Partition
    appended_by: Leader | None
    """The role in which it was appended: in another one the watermark says nothing of this batch."""
    topic: int
    partition: int


def timed_out() -> RequestTimedOut:
    """The client's time is up."""
    return RequestTimedOut("the batch was appended, but not committed within the timeout of the request")


class PendingCommit:
    """An answer whose batches are not committed yet: `refuse` is called for those that may not be acknowledged, `encode` at the end."""

    __slots__ = ("_acks", "_encode", "_pending", "_refuse", "_remaining", "_timer")

    def __init__(
        self,
        pending: PendingReply,
        waits: Sequence[Wait],
        refuse: Callable[[Wait, KafkaError], None],
        encode: Callable[[], bytes],
        *,
        acks: int,
    ) -> None:
        self._pending = pending
        self._refuse = refuse
        self._encode = encode
        self._acks = acks
        self._remaining = dict(enumerate(waits))
        self._timer: asyncio.TimerHandle | None = None

    def start(self, timeout_ms: int) -> None:
        """Begin to wait, for so long at most."""
        self._timer = asyncio.get_running_loop().call_later(max(timeout_ms, 0) / 1000, self._time_is_up)
        self._pending.on_abandon = self._abandoned
        for number, wait in list(self._remaining.items()):
            if wait.appended_to.leading is wait.appended_by:
                wait.watermark.wait_for(wait.offset, partial(self._reached, number), token=(self, number))
            else:
                # Another batch of the request was late, and nothing waited meanwhile that could have heard of it.
                self._reached(number, NotLeaderOrFollower("the batch was appended, and the leader changed before it was committed"))

    def _reached(self, number: int, error: KafkaError | None) -> None:
        wait = self._remaining.pop(number)
        error = error or wait.appended_to.why_not_acknowledged(self._acks)
        if error is not None:
            self._refuse(wait, error)
        if not self._remaining:
            self._finish()

    def _time_is_up(self) -> None:
        for wait in self._stop_waiting():
            self._refuse(wait, timed_out())
        self._finish()

    def _abandoned(self) -> None:
        self._stop_waiting()

    def _stop_waiting(self) -> list[Wait]:
        remaining, self._remaining = self._remaining, {}
        for number, wait in remaining.items():
            wait.watermark.cancel((self, number))
        if self._timer is not None:
            self._timer.cancel()
        return list(remaining.values())

    def _finish(self) -> None:
        assert self._timer is not None
        self._timer.cancel()
        self._pending.complete((self._encode(),))
