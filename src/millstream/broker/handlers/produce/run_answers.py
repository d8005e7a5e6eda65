"""The answers to a run of Produce requests (`produce_run`): sent together, at once or when what they wait for has come.

With acks=all and followers every request of a run waits for the high watermark, and its partitions mostly get there together, by one fetch
of a follower. So the run waits as a whole, once for each of its partitions, and holds one place in the queue of answers.
"""

from functools import partial
from typing import NamedTuple

from millstream.broker.deadlines import Deadline, Deadlines
from millstream.broker.handlers.groups.pending_commit import timed_out
from millstream.broker.handlers.leader_hints import LeaderHints
from millstream.broker.handlers.produce.produce_answer import Asked, encode_answer, refused
from millstream.broker.network.connection import Connection, PendingReply
from millstream.broker.network.request_times import PRODUCE
from millstream.cluster.partition import Partition
from millstream.cluster.watermark import Watermark
from millstream.errors import KafkaError
from millstream.log.log import AppendResult
from millstream.wire.produce import ProduceTopic, TopicProduced


class RunWait(NamedTuple):
    """A request of the run that is not committed yet, and the place of its answer."""

    place: int
    correlation_id: int
    partition_index: int
    last_offset: int
    partition: Partition


class RunAnswers:
    """The answers to some requests of a run, in their order."""

    __slots__ = ("_asked", "_deadline", "_deadlines", "_hints", "_pending", "_topic", "_waits", "encoded")

    def __init__(self, asked: Asked, topic: ProduceTopic, *, hints: LeaderHints, deadlines: Deadlines) -> None:
        self.encoded: list[bytes] = []
        """What is sent if nothing goes wrong."""
        self._asked = asked
        self._topic = topic
        self._hints = hints
        self._deadlines = deadlines
        self._waits: dict[Watermark, list[RunWait]] = {}
        self._pending: PendingReply | None = None
        self._deadline: Deadline | None = None

    def wait(self, correlation_id: int, index: int, result: AppendResult, partition: Partition, watermark: Watermark) -> None:
        """The answer that is encoded next may not be sent before the watermark has passed the batch."""
        wait = RunWait(len(self.encoded), correlation_id, index, result.last_offset, partition)
        self._waits.setdefault(watermark, []).append(wait)

    def send(self, connection: Connection) -> None:
        """Send the answers, in their turn and when they may be sent."""
        if not self.encoded:
            return
        if not self._waits:
            connection.reply((b"".join(self.encoded),), PRODUCE, len(self.encoded))
            return
        self._pending = connection.defer(PRODUCE, len(self.encoded))
        self._pending.on_abandon = self._stop_waiting
        self._deadline = self._deadlines.add(max(self._asked.timeout_ms, 0) / 1000, self._time_is_up)
        for watermark, waits in list(self._waits.items()):
            # A batch that came again has the place it had, so the last one need not be the highest.
            highest = max(wait.last_offset for wait in waits)
            watermark.wait_for(highest + 1, partial(self._reached, watermark), token=self)

    def _reached(self, watermark: Watermark, error: KafkaError | None) -> None:
        self._settle(watermark, error)
        if not self._waits:
            self._finish()

    def _time_is_up(self) -> None:
        for watermark in list(self._waits):
            watermark.cancel(self)
            self._settle(watermark, timed_out())
        self._finish()

    def _settle(self, watermark: Watermark, error: KafkaError | None) -> None:
        """The wait for one partition is over: what is committed of it is acknowledged, the rest has the error."""
        for wait in self._waits.pop(watermark):
            own = error if wait.last_offset >= watermark.value else wait.partition.why_not_acknowledged(self._asked.acks)
            if own is not None:
                answer = TopicProduced(self._topic.name, self._topic.topic_id, [refused(wait.partition_index, own)])
                asked = self._asked._replace(correlation_id=wait.correlation_id)
                self.encoded[wait.place] = encode_answer(asked, [answer], self._hints)

    def _finish(self) -> None:
        assert self._pending is not None
        if self._deadline is not None:
            self._deadline.cancel()
        self._pending.complete((b"".join(self.encoded),))

    def _stop_waiting(self) -> None:
        for watermark in self._waits:
            watermark.cancel(self)
        self._waits.clear()
        if self._deadline is not None:
            self._deadline.cancel()
