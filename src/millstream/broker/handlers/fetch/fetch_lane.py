"""Fetches of one partition by a reader that has read everything: the fast lane of followers, and of consumers at the end of a log.

Such a reader sends the same request again and again, only the offset moves on, and each has to wait for the next batch. When a request has
begun to wait, its connection remembers its shape. A request that has exactly that shape is not decoded and reads nothing: if it asks for
what comes next, the position of the reader is noted (a follower thereby acknowledges what is before it), and it waits. Whatever is unusual,
refused, or has something to read goes to the handler, which knows all the answers.
"""

import logging
from collections.abc import Callable
from typing import NamedTuple

from millstream.broker.handlers.fetch.fetch_sessions import FINAL_EPOCH, NO_SESSION, FetchSession, Wanted
from millstream.broker.network.connection import Connection
from millstream.broker.network.session import Session
from millstream.cluster.readable_replica import ReadableReplica
from millstream.wire.fetch import FetchRequest
from millstream.wire.fetch_shape import FetchShape

logger = logging.getLogger(__name__)


class RepeatedFetch(NamedTuple):
    """What the requests of a lane have in common."""

    connection: Connection
    client: Session
    version: int
    fetch: FetchRequest
    session: FetchSession
    wanted: Wanted
    role: Callable[..., ReadableReplica]
    """A method of `Partition`: in which role it answers."""


WaitAtEnd = Callable[[RepeatedFetch, int, int], bool]
"""Lets a request of this correlation id and offset wait; False, and nothing was done, if there may be something else to do."""


class FetchLane:
    """The fetches of one connection that look alike."""

    __slots__ = ("_next_epoch", "_repeated", "_shape", "_wait_at_end")

    def __init__(self, shape: FetchShape, repeated: RepeatedFetch, wait_at_end: WaitAtEnd) -> None:
        self._shape = shape
        self._repeated = repeated
        self._wait_at_end = wait_at_end
        self._next_epoch = repeated.session.next_epoch if repeated.session.session_id else FINAL_EPOCH

    def take(self, frame: memoryview) -> bool:
        """Let the request wait, if it has the shape and nothing is unusual."""
        numbers = self._shape.match(frame)
        connection, session = self._repeated.connection, self._repeated.session
        if numbers is None or connection.has_unanswered:
            return False
        correlation_id, session_epoch, offset = numbers
        is_in_session = session.session_id != NO_SESSION
        # Nothing else may have come in the session since this lane was opened, on whichever connection: it could have changed everything.
        if session_epoch != self._next_epoch or (is_in_session and not session.is_continued_by(session_epoch)):
            return False
        try:
            is_taken = self._wait_at_end(self._repeated, correlation_id, offset)
        except Exception:
            # There is no router above to catch it: the client would wait for ever.
            logger.exception("a repeated fetch from %s failed", connection.peer)
            connection.close("the broker failed on its request")
            return False
        if is_taken and is_in_session:
            self._next_epoch = session.next_epoch
        return is_taken

    def finish(self) -> None:
        """Nothing was left open."""

    finish_soon = finish
