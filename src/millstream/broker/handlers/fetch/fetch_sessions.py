"""Fetch sessions (KIP-227): the broker remembers what a client fetches, so that requests and answers carry only what changed.

Pure code: a request goes in, what to read comes out; after reading, the session decides which partitions the answer has to mention.

    request                         session
    id 0, epoch 0 (or a new start)  a new session is made, if there is room; all partitions are in the request
    epoch -1                        no session (an old one of that id ends)
    id n, epoch e                   session n must expect e; the request carries only changes; the next one must be e + 1

A full cache makes room by dropping the session that was not used for longest, if that is long enough ago; otherwise the client simply
gets no session and sends everything each time. Followers (KIP-227 calls them privileged) fetch many partitions and for ever: for one of
them the oldest session of a consumer goes, however old it is, and none that they use goes for a consumer. Within a session the partitions
that an incremental answer had data of move to the back of the order, so that a small `max_bytes` starves no partition.

A session of ten thousand partitions of which nine move costs as much as one of nine: only *marked* partitions are read. A partition is
marked when a request names it and when it moves, and stays so until an answer has said all there is to say of it: no data is left, nothing
is wrong, and the high watermark was mentioned. From then on the session watches it (`cluster.watchers`). A session that is not kept has all
its partitions marked, and watches them only while its one request waits.
"""

from collections.abc import Iterable
from itertools import count
from operator import attrgetter
from random import randrange
from typing import Protocol

from millstream.cluster.partition import Partition
from millstream.errors import FetchSessionIdNotFound, FetchSessionTopicIdError, InvalidFetchSessionEpoch
from millstream.log.region import FileRegion
from millstream.wire.fetch import FetchRequest, FetchTopic, ForgottenTopic, PartitionFetched

NO_SESSION = 0
FIRST_EPOCH = 0
FINAL_EPOCH = -1
MAX_EPOCH = 2**31 - 1
MAX_PARTITIONS = 500_000
"""In all sessions together, at some 200 bytes each: whoever comes later has no session."""
FIRST_VERSION_WITH_TOPIC_ID = 13
MIN_IDLE_MS = 120_000

TopicKey = str | bytes
PartitionKey = tuple[TopicKey, int]
Reader = tuple[int, int, int]
"""Replica id, broker epoch of the replica, isolation level: what decides, beside the position, what a partition has to give."""
ANY_CONSUMER: Reader = (-1, -1, 0)

BY_TURN = attrgetter("turn")


class Waiter(Protocol):
    """A request of the session that is not answered yet (`fetch_attempt`)."""

    def moved(self, wanted: "Wanted") -> None:
        """There may be something to read."""

    def marked(self, wanted: "Wanted") -> None:
        """What was found there may have changed; that alone is no reason to answer."""


class Wanted:
    """One partition that a client fetches, and the last answer about it: a `Watcher` of it, and the `Position` of a follower in it."""

    __slots__ = (
        "_seen_ms",
        "_session",
        "_watched",
        "current_leader_epoch",
        "fetch_offset",
        "index",
        "is_quiet",
        "is_wanted",
        "last_error",
        "last_fetched_epoch",
        "last_high_watermark",
        "last_log_start_offset",
        "log_start_offset",
        "max_bytes",
        "topic",
        "turn",
    )

    def __init__(self, session: "FetchSession", topic: TopicKey, index: int, *, turn: int) -> None:
        self._session = session
        self._watched: Partition | None = None
        self._seen_ms = -1
        self.turn = turn
        """The smaller, the earlier it is read."""
        self.is_quiet = False
        """Whether the last look found nothing to read and nothing wrong, and nothing has changed since, so that it need not be repeated."""
        self.is_wanted = True
        """Whether it still belongs to the session."""
        self.topic = topic
        self.index = index
        self.fetch_offset = 0
        self.max_bytes = 0
        self.current_leader_epoch = -1
        self.last_fetched_epoch = -1
        self.log_start_offset = -1
        self.last_high_watermark = -1
        self.last_log_start_offset = -1
        self.last_error = 0

    # --- as a watcher

    def watch(self, partition: Partition) -> None:
        """Have the partition call when it moves."""
        if self._watched is not partition:
            self.unwatch()
            self._watched = partition
            partition.watchers.add(self, is_replica=self._session.is_privileged)

    def unwatch(self) -> None:
        """Do not be called any more."""
        if self._watched is not None:
            self._watched.watchers.remove(self)
            self._watched = None

    def moved(self) -> None:
        """There may be something to read."""
        self._watched = None
        self.stir()
        self._session.moved(self)

    def marked(self) -> None:
        """The next answer has something to say."""
        self.stir()
        self._session.marked(self)

    # --- as the position of a follower

    @property
    def fetched_ms(self) -> int:
        """When the follower was last known to be here: while it is quiet, each request of the session says so."""
        return self._session.fetched_ms if self.is_quiet else self._seen_ms

    def stir(self) -> None:
        """It has changed, is looked at anew, or left: nothing is known of it."""
        if self.is_quiet:
            self._seen_ms = self._session.fetched_ms
            self.is_quiet = False

    def is_news(self, answer: PartitionFetched[FileRegion]) -> bool:
        """Whether an incremental answer has to mention this; remembers what was answered."""
        has_changed = (
            answer.records is not None
            or answer.error_code != 0
            or answer.diverging_epoch is not None
            or answer.preferred_read_replica >= 0
            or self.last_error != 0
            or answer.high_watermark != self.last_high_watermark
            or answer.log_start_offset != self.last_log_start_offset
        )
        self.last_high_watermark = answer.high_watermark
        self.last_log_start_offset = answer.log_start_offset
        self.last_error = answer.error_code
        return has_changed


class FetchSession:
    """What one client fetches; a client without a session has one that lasts for a single request and has the id 0."""

    def __init__(self, session_id: int, *, uses_topic_ids: bool, reader: Reader = ANY_CONSUMER) -> None:
        self.session_id = session_id
        self._reader = reader
        self.is_privileged = reader[0] >= 0
        """Whether a follower fetches."""
        self.is_kept = False
        """Whether another request may come."""
        self.next_epoch = 1
        self.uses_topic_ids = uses_topic_ids
        self.used_ms = 0
        self.is_incremental = False
        """Whether the current request carried only changes, so that the answer may too."""
        self.fetched_ms = 0
        """When the last request came that speaks for a follower."""
        self._wanted: dict[PartitionKey, Wanted] = {}
        self._marked: set[Wanted] = set()
        self._turns = count()
        self._waiting: dict[Waiter, None] = {}

    def __len__(self) -> int:
        return len(self._wanted)

    def get(self, topic: TopicKey, index: int) -> Wanted | None:
        """The partition, if it is fetched."""
        return self._wanted.get((topic, index))

    def update(self, topics: Iterable[FetchTopic], forgotten: Iterable[ForgottenTopic] = ()) -> None:
        """Take over the changes that a request carries; what it both wants and forgets is forgotten, as in Kafka."""
        wanted, mark = self._wanted, self._marked.add
        for name, topic_id, partitions in topics:
            key = topic_key(name, topic_id)
            for partition in partitions:
                place = (key, partition.partition)
                entry = wanted.get(place)
                if entry is None:
                    entry = wanted[place] = Wanted(self, key, partition.partition, turn=next(self._turns))
                entry.fetch_offset = partition.fetch_offset
                entry.max_bytes = partition.max_bytes
                entry.current_leader_epoch = partition.current_leader_epoch
                entry.last_fetched_epoch = partition.last_fetched_epoch
                entry.log_start_offset = partition.log_start_offset
                mark(entry)
        for name, topic_id, indexes in forgotten:
            for index in indexes:
                entry = wanted.pop((topic_key(name, topic_id), index), None)
                if entry is not None:
                    self._marked.discard(entry)
                    entry.is_wanted = False
                    entry.unwatch()
                    entry.stir()

    def update_offset(self, wanted: Wanted, offset: int) -> None:
        """The request names only this partition, and says only of its offset something new."""
        wanted.stir()
        wanted.fetch_offset = offset
        self._marked.add(wanted)

    def is_continued_by(self, session_epoch: int) -> bool:
        """Whether a request of this epoch is the next one of a session that has not ended."""
        return self.is_kept and session_epoch == self.next_epoch

    def go_on(self) -> None:
        """The next request of the session has come, and carries only changes."""
        self.next_epoch = self.next_epoch + 1 if self.next_epoch < MAX_EPOCH else 1
        self.is_incremental = True

    def move_to_back(self, entries: Iterable[Wanted]) -> None:
        """Let the others go first next time."""
        for entry in entries:
            entry.turn = next(self._turns)

    # --- what has to be read

    def due(self) -> list[Wanted]:
        """The partitions of which there may be something to say, in their order."""
        return sorted(self._marked, key=BY_TURN) if len(self._marked) > 1 else list(self._marked)

    def mark_all(self) -> None:
        """Read everything with the next look."""
        self._marked.update(self._wanted.values())

    def has_marked_beside(self, wanted: Wanted) -> bool:
        """Whether other partitions have to be read, too."""
        return bool(self._marked) and (len(self._marked) > 1 or wanted not in self._marked)

    def read_as(self, reader: Reader) -> None:
        """Who asks now; what was answered to another one, or in another life, does not hold for it."""
        if reader != self._reader:
            self._reader = reader
            self.is_privileged = reader[0] >= 0
            for wanted in self._wanted.values():
                wanted.unwatch()
                wanted.stir()
            self.mark_all()

    def settle(self, wanted: Wanted, partition: Partition) -> None:
        """Everything was said of the partition: do not read it before it moves."""
        if self.is_kept and wanted.is_wanted:
            self._marked.discard(wanted)
            wanted.watch(partition)

    # --- waiting

    def wait(self, waiter: Waiter) -> None:
        """Call the waiter whenever something changes in a partition that was looked at."""
        self._waiting[waiter] = None

    def moved(self, wanted: Wanted) -> None:
        """The partition has something to read, or an error: it is read with the next look."""
        self._marked.add(wanted)
        for waiter in self._waiting:
            waiter.moved(wanted)

    def marked(self, wanted: Wanted) -> None:
        """The next answer has something to say of the partition."""
        self._marked.add(wanted)
        for waiter in self._waiting:
            waiter.marked(wanted)

    def stop_waiting(self, waiter: Waiter) -> None:
        """Forget the wait."""
        self._waiting.pop(waiter, None)
        if not self.is_kept:
            self._unwatch()

    def end(self) -> None:
        """No further request comes; one that waits still gets its answer."""
        self.is_kept = False
        self._unwatch()

    def _unwatch(self) -> None:
        if not self._waiting:
            for wanted in self._wanted.values():
                wanted.unwatch()


class FetchSessions:
    """All sessions of this broker."""

    def __init__(self, *, max_sessions: int, min_idle_ms: int = MIN_IDLE_MS) -> None:
        self._max_sessions = max_sessions
        self._min_idle_ms = min_idle_ms
        self._sessions: dict[int, FetchSession] = {}
        self._partitions = 0
        """How many partitions all sessions together remember."""

    def __len__(self) -> int:
        return len(self._sessions)

    def begin(self, request: FetchRequest, *, version: int, now_ms: int) -> FetchSession:
        """The session that a request belongs to, brought up to date; raises if the request is out of turn."""
        uses_topic_ids = version >= FIRST_VERSION_WITH_TOPIC_ID
        if request.session_epoch in (FIRST_EPOCH, FINAL_EPOCH):
            self._end(request.session_id)
            session = FetchSession(NO_SESSION, uses_topic_ids=uses_topic_ids, reader=_reader_of(request))
            session.update(request.topics)
            if request.session_epoch == FIRST_EPOCH and self._make_room(session, now_ms):
                self._keep(session)
        else:
            session = self._continue(request, uses_topic_ids=uses_topic_ids)
        session.used_ms = now_ms
        return session

    def go_on(self, session: FetchSession, *, now_ms: int) -> None:
        """A request of the session has come that changes nothing but a position."""
        session.used_ms = now_ms
        if session.is_kept:
            session.go_on()
            self._sessions[session.session_id] = self._sessions.pop(session.session_id)

    def _continue(self, request: FetchRequest, *, uses_topic_ids: bool) -> FetchSession:
        session = self._sessions.get(request.session_id)
        if session is None:
            raise FetchSessionIdNotFound(f"there is no fetch session {request.session_id}")
        if request.session_epoch != session.next_epoch:
            raise InvalidFetchSessionEpoch(
                f"fetch session {request.session_id} expects epoch {session.next_epoch}, the request says {request.session_epoch}"
            )
        if uses_topic_ids != session.uses_topic_ids:
            raise FetchSessionTopicIdError("a fetch session cannot change between topic names and topic ids")
        session.go_on()
        self._partitions -= len(session)
        session.read_as(_reader_of(request))
        session.update(request.topics, request.forgotten_topics)
        self._partitions += len(session)
        # Taken out and put back: the dictionary is in the order of use, the one unused for longest first.
        del self._sessions[session.session_id]
        if not len(session):
            return FetchSession(NO_SESSION, uses_topic_ids=uses_topic_ids)
        self._sessions[session.session_id] = session
        if self._partitions > MAX_PARTITIONS:
            self._end(session.session_id)
            raise FetchSessionIdNotFound(f"the fetch sessions of all clients hold {MAX_PARTITIONS} partitions already")
        return session

    def _end(self, session_id: int) -> None:
        session = self._sessions.pop(session_id, None)
        if session is not None:
            self._partitions -= len(session)
            session.end()

    def _keep(self, session: FetchSession) -> None:
        while session.session_id == NO_SESSION or session.session_id in self._sessions:
            session.session_id = randrange(1, MAX_EPOCH)
        self._sessions[session.session_id] = session
        self._partitions += len(session)
        session.is_kept = True

    def _make_room(self, session: FetchSession, now_ms: int) -> bool:
        """Let others go until there is room for the session; False if that cannot be."""
        if len(session) > MAX_PARTITIONS:
            return False
        while len(self._sessions) >= self._max_sessions or self._partitions + len(session) > MAX_PARTITIONS:
            going = self._dispensable(now_ms, for_follower=session.is_privileged)
            if going is None:
                return False
            self._end(going.session_id)
        return True

    def _dispensable(self, now_ms: int, *, for_follower: bool) -> FetchSession | None:
        oldest = next(iter(self._sessions.values()), None)
        if oldest is not None and now_ms - oldest.used_ms >= self._min_idle_ms:
            return oldest  # also that of a follower, which asks all the time: this one has another by now, or is gone
        return next((session for session in self._sessions.values() if not session.is_privileged), None) if for_follower else None


def _reader_of(request: FetchRequest) -> Reader:
    return request.replica_id, request.replica_epoch, request.isolation_level


def topic_key(name: str | None, topic_id: bytes | None) -> TopicKey:
    """A topic as it is called in sessions: by its name, or by its id where the version has no names."""
    key = topic_id if name is None else name
    assert key is not None
    return key
