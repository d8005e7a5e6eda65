"""Commits of the same partitions, again and again: the fast lane of consumers.

When a connection has committed the same partitions twice, it remembers the shape of the request. A request that has exactly that shape is
not decoded and makes no command; the machine of the group is asked whether the member may still commit, takes the new numbers and encodes
its records by one call (`groups.offsets.repeated_commit`). Whatever is unusual, refused or has to wait goes to the handler, which knows all
the answers: a member of another generation, a log that is flushed before it acknowledges, other replicas. A topic that came or went closes
the lane, as all that decides what a session may do.
"""

import logging
from collections.abc import Sequence
from typing import Final

from millstream.broker.coordinators.context import CoordinatorContext
from millstream.broker.coordinators.group_coordinator import GroupCoordinator
from millstream.broker.network.api import Request
from millstream.broker.network.connection import Connection
from millstream.broker.network.outbox import Chunk
from millstream.broker.network.request_times import OFFSET_COMMIT
from millstream.errors import KafkaError
from millstream.groups.commands import CommitOffsets
from millstream.groups.offsets.repeated_commit import RepeatedCommit
from millstream.groups.offsets.store import answer_commit
from millstream.groups.shard import GroupCoordinatorShard
from millstream.wire.offset_commit import CommitShape, OffsetCommitRequest, encode_response

logger = logging.getLogger(__name__)

MAX_REMEMBERED_BYTES: Final = 64 * 1024
"""Of a request whose shape is remembered: what a connection may make the broker keep."""


class CommitLane:
    """The commits of one connection that look alike."""

    __slots__ = ("_commit", "_connection", "_context", "_shape")

    def __init__(
        self,
        connection: Connection,
        context: CoordinatorContext[GroupCoordinatorShard],
        *,
        shape: CommitShape,
        commit: RepeatedCommit,
    ) -> None:
        self._connection = connection
        self._context = context
        self._shape = shape
        self._commit = commit

    def take(self, frame: memoryview) -> bool:
        """Commit and answer at once, if the request has the shape and nothing is unusual."""
        numbers = self._shape.match(frame)
        if numbers is None:
            return False
        correlation_id, offsets, leader_epochs = numbers
        try:
            is_done = self._context.write_encoded(
                self._commit.count, lambda shard, now_ms: shard.commit_again(self._commit, offsets, leader_epochs, now_ms=now_ms)
            )
        except Exception:
            # There is no router above to catch it: the client would wait for ever, and its next answer would be the wrong one.
            logger.exception("a repeated commit from %s failed", self._connection.peer)
            self._connection.close("the broker failed on its request")
            return False
        if not is_done:
            return False
        self._connection.reply((self._shape.answer(correlation_id),), OFFSET_COMMIT)
        return True

    def finish(self) -> None:
        """Nothing was left open."""

    finish_soon = finish


class FirstCommit:
    """The lane of a connection that has committed once: it takes nothing, and is asked how long that request was."""

    __slots__ = ("size",)

    def __init__(self, size: int) -> None:
        self.size = size

    def take(self, frame: memoryview) -> bool:
        """Everything goes to the handler."""
        return False

    def finish(self) -> None:
        """Nothing was left open."""

    finish_soon = finish


class CommitLanes:
    """Decides which connections get a lane."""

    def __init__(self, groups: GroupCoordinator) -> None:
        self._groups = groups

    def commit_answered(
        self, request: Request, message: OffsetCommitRequest, command: CommitOffsets, chunks: Sequence[Chunk] | None
    ) -> None:
        """A commit was answered with `chunks` by the handler, if at once: open the lane for the next ones, if it may be."""
        connection = request.connection
        size = len(request.frame)
        if chunks is None or size > MAX_REMEMBERED_BYTES or command.retention_ms is not None:
            return
        if not isinstance(connection.lane, FirstCommit) or connection.lane.size != size:
            # A consumer that commits something else each time would only pay for shapes that do not come again.
            request.open_lane(FirstCommit(size))
            return
        success = encode_response(request.api_version, request.correlation_id, topics=answer_commit(command.topics, 0))
        shape = CommitShape.of(request.frame, request.api_version, message, answer=success) if chunks[0] == success else None
        if shape is not None:
            try:
                context = self._groups.runtime.context(command.group_id)
            except KafkaError:
                return
            request.open_lane(CommitLane(connection, context, shape=shape, commit=RepeatedCommit(command)))
