"""One fetch from its request to its answer, however long that takes, without a task.

Each partition is looked at once. While the fetch goes on, its session hears of those that change (`cluster.watchers`), and only those are
looked at again: as soon as there may be more to read, and when the client's time is up. So what is found always holds when it is sent, or
the partition is still marked in the session and read with the next request.

A fetch of many partitions (the first of a session, or any of a client without one) is a look in turns: some partitions per turn of the
loop, all such fetches together (`loop_turns`), each partition watched from the moment it was read. Loading what was found is done in the
same way. Decoding such a request and composing its answer take a turn each, about a microsecond per partition.
"""

from collections.abc import Iterable, Sequence
from typing import Final, Protocol

from millstream.broker.deadlines import Deadline, Deadlines
from millstream.broker.handlers.fetch.fetch_sessions import BY_TURN, FetchSession, Wanted
from millstream.broker.handlers.leader_hints import LeaderHints
from millstream.broker.network.connection import PendingReply
from millstream.broker.network.outbox import Chunk
from millstream.broker.network.session import Session
from millstream.broker.storage.loop_turns import LoopTurns
from millstream.cluster.partition import Partition
from millstream.errors import FencedLeaderEpoch, NotLeaderOrFollower
from millstream.log.region import FileRegion
from millstream.wire.fetch import FIRST_WITH_ENDPOINTS, FetchRequest, PartitionFetched, TopicFetched, encode_response

PARTITIONS_PER_TURN: Final = 250
"""A millisecond or two; eight if each has a file to be opened."""
_LED_ELSEWHERE: Final = (NotLeaderOrFollower.code, FencedLeaderEpoch.code)

Answer = PartitionFetched[FileRegion]


class FetchRound:
    """What was found so far for one fetch, by partition; without the partition where there is none to read."""

    __slots__ = ("answers", "is_out_of_order", "is_urgent", "size_bytes")

    def __init__(self) -> None:
        self.answers: dict[Wanted, tuple[Answer, Partition | None]] = {}
        self.size_bytes = 0
        self.is_urgent = False
        """Whether something was found that the client is to know at once: an error, another history, another replica to read from."""
        self.is_out_of_order = False
        """Whether something was found after a first look."""

    def size_without(self, wanted: Wanted) -> int:
        """How many bytes were found, without what was found in this partition before."""
        former = self.answers.get(wanted)
        return self.size_bytes if former is None or former[0].records is None else self.size_bytes - former[0].records.length

    def take(self, wanted: Wanted, answer: Answer, partition: Partition | None) -> None:
        """This is what the partition has now."""
        size_bytes = self.size_without(wanted)
        self.answers[wanted] = answer, partition
        if answer.records is not None:
            size_bytes += answer.records.length
        elif answer.error_code or answer.diverging_epoch or answer.preferred_read_replica >= 0:
            self.is_urgent = True
        self.size_bytes = size_bytes

    def in_order(self) -> Iterable[tuple[Wanted, tuple[Answer, Partition | None]]]:
        """What was found, in the order of the session."""
        if self.is_out_of_order and len(self.answers) > 1:
            return [(wanted, self.answers[wanted]) for wanted in sorted(self.answers, key=BY_TURN)]
        return self.answers.items()


class Reads(Protocol):
    """The broker's side of a fetch (`handlers.fetch`)."""

    hints: LeaderHints
    turns: LoopTurns
    deadlines: Deadlines

    def read(self, client: Session, fetch: FetchRequest, found: FetchRound, due: Iterable[Wanted], *, is_first_look: bool = False) -> None:
        """Look at partitions."""

    def is_enough(self, client: Session, fetch: FetchRequest, found: FetchRound) -> bool:
        """Whether the answer may go out before the deadline."""

    def deliver(self, chunks: list[Chunk], pending: PendingReply) -> None:
        """Send a composed answer."""


class FetchAttempt:
    """A request that is not answered yet: a `Waiter` of its session."""

    __slots__ = (
        "_client",
        "_correlation_id",
        "_deadline",
        "_family",
        "_fetch",
        "_is_first_look",
        "_is_over",
        "_is_woken",
        "_left",
        "_pending",
        "_session",
        "_stale",
        "_version",
        "found",
    )

    def __init__(
        self, family: Reads, client: Session, fetch: FetchRequest, session: FetchSession, *, version: int, correlation_id: int
    ) -> None:
        self._client = client
        self._family = family
        self._fetch = fetch
        self._session = session
        self._version = version
        self._correlation_id = correlation_id
        self._pending: PendingReply | None = None
        self._deadline: Deadline | None = None
        self._is_woken = False
        """Whether partitions are to be looked at again soon."""
        self._is_over = False
        """Whether the client's time is up."""
        self._left: Sequence[Wanted] = ()
        """What a look in turns has still to look at."""
        self._is_first_look = False
        self._stale: dict[Wanted, None] = {}
        """What has changed since it was looked at."""
        self.found = FetchRound()

    def compose(self) -> list[Chunk]:
        """The encoded answer: what an incremental session already knows is left out."""
        is_incremental = self._session.is_incremental
        is_consumer = self._fetch.replica_id < 0
        topics: list[TopicFetched[FileRegion]] = []
        with_data: list[Wanted] = []
        answers: list[Answer] = []
        current: object = None
        leaders: list[int] = []
        for wanted, (answer, partition) in self.found.in_order():
            is_news = wanted.is_news(answer)
            if partition is not None:
                partition.fetch_requests += 1
                if is_consumer and answer.records is not None:
                    partition.bytes_out += answer.records.length
            if wanted.is_quiet and partition is not None:
                self._session.settle(wanted, partition)
            if is_incremental and not (is_news and wanted.is_wanted):
                continue
            if answer.error_code in _LED_ELSEWHERE and self._version >= FIRST_WITH_ENDPOINTS:
                leader = self._family.hints.leader_of(wanted.topic, wanted.index)
                answer = answer._replace(leader=leader)  # noqa: PLW2901 -- the same answer, completed
                leaders += leader[:1] if leader is not None else ()
            if wanted.topic != current:
                current = wanted.topic
                answers = []
                topics.append(_topic(wanted, answers))
            answers.append(answer)
            if is_incremental and answer.records is not None:
                with_data.append(wanted)
        if with_data and len(self._session) > 1:
            self._session.move_to_back(with_data)
        endpoints = self._family.hints.endpoints(leaders) if leaders else ()
        session_id = self._session.session_id
        return [*encode_response(self._version, self._correlation_id, topics=topics, session_id=session_id, node_endpoints=endpoints)]

    # --- waiting

    def wait(self, pending: PendingReply) -> None:
        """Answer when partitions move and there is enough, or when the client's time is up."""
        self._begin_waiting(pending)
        self._watch(self.found.answers)
        self._set_deadline()

    def wait_at_end(self, wanted: Wanted, partition: Partition, pending: PendingReply) -> None:
        """The same for one partition that has nothing to read: it is looked at when it moves, or the client's time is up."""
        self._begin_waiting(pending)
        self._stale[wanted] = None
        wanted.watch(partition)
        self._set_deadline()

    def look_in_turns(self, due: Sequence[Wanted], pending: PendingReply) -> None:
        """Look at many partitions in later turns of the loop, and then answer or wait."""
        self._begin_waiting(pending)
        self._is_first_look = True
        self._look_at(due)

    def moved(self, wanted: Wanted) -> None:
        """The session calls: there may be something to read."""
        self._stale[wanted] = None
        if not self._is_woken:
            self._is_woken = True
            if not self._left:
                self._look_soon()

    def marked(self, wanted: Wanted) -> None:
        """The session calls: what was found there does not hold any more."""
        self._stale[wanted] = None

    def _look_soon(self) -> None:
        # Soon, not now: what else this callback of the loop appends then goes out with the same answer.
        assert self._pending is not None
        self._pending.call_at_end_of_turn(self._look_again)

    def _look_again(self) -> None:
        if self._pending is None or self._left:
            return
        self._is_woken = False
        self.found.is_out_of_order = True
        stale, self._stale = self._stale, {}
        self._look_at(sorted(stale, key=BY_TURN) if len(stale) > 1 else list(stale))

    def _look_at(self, due: Sequence[Wanted]) -> None:
        if len(due) > PARTITIONS_PER_TURN:
            self._left = due
            self._family.turns.share(self._look_at_some)
        else:
            self._family.read(self._client, self._fetch, self.found, due)
            if not self._answer_if_enough():
                self._watch(due)

    def _look_at_some(self) -> bool:
        """A step of a look in turns; whether it was the last."""
        if self._pending is None:
            return True
        some, self._left = self._left[:PARTITIONS_PER_TURN], self._left[PARTITIONS_PER_TURN:]
        self._family.read(self._client, self._fetch, self.found, some, is_first_look=self._is_first_look)
        self._watch(some)
        if self._left:
            return False
        self._is_first_look = False
        if not self._answer_if_enough():
            self._set_deadline()
            if self._is_woken:
                self._look_soon()
        return True

    def _answer_if_enough(self) -> bool:
        is_enough = self._is_over or self._fetch.max_wait_ms <= 0 or self._family.is_enough(self._client, self._fetch, self.found)
        if is_enough:
            self._answer()
        return is_enough

    def _time_is_up(self) -> None:
        self._is_over = True
        if self._stale:
            self._look_again()
        elif not self._left:
            self._answer()

    def _answer(self) -> None:
        pending = self._pending
        if pending is not None:
            self._stop_waiting()
            self._family.deliver(self.compose(), pending)

    def _begin_waiting(self, pending: PendingReply) -> None:
        self._pending = pending
        pending.on_abandon = self._stop_waiting
        self._session.wait(self)

    def _set_deadline(self) -> None:
        if self._deadline is None:
            self._deadline = self._family.deadlines.add(self._fetch.max_wait_ms / 1000, self._time_is_up)

    def _stop_waiting(self) -> None:
        self._pending = None
        if self._deadline is not None:
            self._deadline.cancel()
        self._session.stop_waiting(self)

    def _watch(self, looked_at: Iterable[Wanted]) -> None:
        """Be called when what was just looked at changes; whatever else is in the session calls already."""
        answers = self.found.answers
        for wanted in looked_at:
            partition = answers[wanted][1]
            if partition is not None and wanted.is_wanted:  # a later request may have forgotten it
                wanted.watch(partition)


def _topic(wanted: Wanted, answers: list[Answer]) -> TopicFetched[FileRegion]:
    key = wanted.topic
    return TopicFetched(key, None, answers) if isinstance(key, str) else TopicFetched(None, key, answers)
