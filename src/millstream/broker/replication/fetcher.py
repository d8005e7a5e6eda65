"""Fetches from one leader what this broker follows of it: one request at a time for all its partitions, and the next as soon as the answer
is appended.

    connected ─ request (fetch session: only what changed) ─ long poll ─ answer ─ append per partition ─ flush where due ─ again

A partition that cannot be fetched now leaves the session while the others go on: after an error for a growing pause (at most
`replica.fetch.backoff.ms`; the view may bring a new leader meanwhile), and while its log is cut in a thread. One whose disk failed is given
up until the view says something new of it. An answer counts for a partition only if its role is the one that it was asked for with.

Nothing is done per record, and a large answer is appended in turns, so that clients of this broker do not wait for it.

While all is well this goes on in the callbacks of the connection, an answer and the next request in one: `run`, the task, waits until
something takes longer, or goes wrong (`_handover`).
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterator, Sequence
from functools import partial
from typing import TYPE_CHECKING, Final, NamedTuple

from millstream.broker.cluster.live_settings import LiveSettings
from millstream.broker.cluster.peers import Peer
from millstream.broker.replication.fetch_limits import fetch_limits
from millstream.broker.replication.fetch_troubles import FetchTroubles
from millstream.broker.replication.follower_throttle import FollowerThrottle
from millstream.broker.replication.leader_offsets import LeaderOffsets
from millstream.broker.replication.replication_quotas import ReplicationQuotas
from millstream.broker.tasks import Spawn
from millstream.client.codecs.fetch_session import FetchSession
from millstream.client.codecs.replica_fetch import ReplicaFetchAnswer, ReplicaFetched, ReplicaFetchRequest, ReplicaKey, ReplicaWanted
from millstream.client.errors import kafka_error
from millstream.cluster.follower import Follower
from millstream.errors import KafkaError, MillstreamError, OffsetOutOfRange, StorageError
from millstream.log.leader_epochs import EpochEnd
from millstream.wire.batch import end_of_batches

if TYPE_CHECKING:
    from millstream.client.async_connection import AsyncConnection

logger = logging.getLogger(__name__)

TURN_S: Final = 0.004
"""How long answers are appended before others have a turn."""
PIECE_BYTES: Final = 64 << 10
PIECE_BATCHES: Final = 500
"""What is larger than so many bytes is appended in pieces of so many batches, each well below a turn."""
FEW_PARTITIONS: Final = 16
"""An answer with no more of them, and no more bytes than a piece has, is appended at once."""
WAIT_WHILE_BUSY_MS: Final = 20
"""How long a fetch may wait while partitions are about to come back."""
HURRY_S: Final = 0.01
"""How long a fetch may go on waiting when partitions have come that it does not ask for."""
INTERRUPT_AGAIN_S: Final = 0.5
"""Not more often than that: all partitions are named anew then, and when topics are created in a row that would be many."""
_FIRST_PAUSE_S: Final = 0.02
QUIET_FAILURES: Final = 4
"""So many failures of a partition, a third of a second, are nothing to speak of: its leader has not heard of its election yet."""


class _Handover(NamedTuple):
    """What is left to do of an answer, by the task, before the next request."""

    partitions: Sequence[ReplicaFetched] = ()
    unflushed: Sequence["_Followed"] = ()


class _Followed:
    """A partition of the leader's, and what became of asking for it."""

    __slots__ = ("asked_as", "failures", "follower", "key", "not_before")

    def __init__(self, key: ReplicaKey, follower: Follower) -> None:
        self.key = key
        self.follower = follower
        self.asked_as: Follower | None = None
        """The role in which its position was last sent."""
        self.failures = 0
        self.not_before = 0.0

    @property
    def is_asked(self) -> bool:
        """Whether an answer is about the present role of the partition."""
        follower = self.follower
        return self.asked_as is follower and follower.is_current


class Fetcher:
    """The follower's conversation with one leader."""

    def __init__(
        self,
        peer: Peer,
        *,
        node_id: int,
        broker_epoch: Callable[[], int],
        settings: LiveSettings,
        leader_offsets: LeaderOffsets,
        quotas: ReplicationQuotas,
        cutting: asyncio.Semaphore,
        spawn: Spawn,
    ) -> None:
        """`cutting` is held while a log is cut."""
        self._peer = peer
        self._node_id = node_id
        self._broker_epoch = broker_epoch
        self._limits = fetch_limits(settings)
        self._leader_offsets = leader_offsets
        self._quotas = quotas
        self._throttle = FollowerThrottle(quotas)
        self._cutting = cutting
        self._spawn = spawn
        self._loop = asyncio.get_running_loop()
        self._session = FetchSession()
        self._troubles = FetchTroubles(peer.node_id)
        self._followed: dict[ReplicaKey, _Followed] = {}
        self._paused: dict[ReplicaKey, _Followed] = {}
        self._busy: set[ReplicaKey] = set()
        """What is worked on beside the fetches; it is put back when that is over."""
        self._under_way: object = None
        """The request that waits for its answer."""
        self._handover: asyncio.Future[_Handover] = self._loop.create_future()
        self._pause_s = _FIRST_PAUSE_S
        self._interrupted_at = -INTERRUPT_AGAIN_S
        self._changed = asyncio.Event()
        self._is_ended = False

    def __len__(self) -> int:
        return len(self._followed)

    def follow(self, key: ReplicaKey, follower: Follower) -> None:
        """Fetch the partition in this role from now on."""
        self._followed[key] = _Followed(key, follower)
        self._paused.pop(key, None)
        if key not in self._busy:
            self._session.add(key)
            self._changed.set()
            if self._under_way is not None:
                self._loop.call_later(HURRY_S, self._interrupt, self._under_way)

    def unfollow(self, key: ReplicaKey) -> None:
        """Fetch the partition no longer."""
        self._followed.pop(key, None)
        self._paused.pop(key, None)
        self._throttle.forget(key)
        self._session.remove(key)

    def quotas_changed(self) -> None:
        """What waits for its quota need not, or for another time: it is asked for, and that is decided anew."""
        for paused in self._paused.values():
            paused.not_before = min(paused.not_before, self._loop.time())
        self._changed.set()

    def _interrupt(self, waiting: object) -> None:
        """A fetch that waits for news of other partitions would keep one that came since from its leader, and its producers waiting."""
        now = self._loop.time()
        if self._under_way is waiting and now - self._interrupted_at >= INTERRUPT_AGAIN_S:
            self._interrupted_at = now
            self._peer.disconnect()

    def end(self) -> None:
        """Fetch nothing any more; `run` returns."""
        self._is_ended = True
        self._peer.close()
        self._changed.set()

    async def run(self) -> None:
        """Fetch until the end."""
        while not self._is_ended:
            await self._until_there_is_work()
            try:
                await self._fetch()
            except MillstreamError as error:
                self._session.reset()
                logger.debug("nothing was fetched from broker %d: %s", self._peer.node_id, error)
                await self._pause(self._pause_s)
                self._pause_s = min(2 * self._pause_s, self._limits().backoff_s)

    async def _fetch(self) -> None:
        """Fetch until something takes longer; raises what concerns all partitions."""
        connection = await self._peer.connected()
        self._handover = self._loop.create_future()
        self._ask(connection)
        try:
            partitions, unflushed = await self._handover
        except asyncio.CancelledError:
            self._peer.disconnect()
            raise
        finally:
            self._under_way = None
        await self._take(partitions)
        for followed in unflushed:
            await self._await_flush(followed)

    def _answered(self, answer: ReplicaFetchAnswer) -> None:
        """Take the answer and ask again, in the callback in which it came, if that takes next to no time; else the task goes on with it."""
        if self._handover.done():
            return
        try:
            if answer.error_code:
                raise kafka_error(answer.error_code)
            self._session.answered(answer.session_id)
            self._pause_s = _FIRST_PAUSE_S
            left = self._take_small(answer.partitions)
            connection = self._peer.present() if left is None and self._has_work else None
            if connection is None:
                self._handover.set_result(left or _Handover())
            else:
                self._ask(connection)
        except Exception as error:  # noqa: BLE001 -- handed on to the task
            self._handover.set_exception(error)

    def _failed(self, error: MillstreamError) -> None:
        if not self._handover.done():
            self._handover.set_exception(error)

    # --- asking

    def _ask(self, connection: "AsyncConnection") -> None:
        self._under_way = connection.call(
            self._next_request(), on_answer=self._answered, on_failure=self._failed, timeout_s=self._limits().timeout_s
        )

    @property
    def _has_work(self) -> bool:
        """Whether the next request can go out as it is: there is something to ask for, and nothing to be put back."""
        return len(self._session) > 0 and not self._paused and not self._is_ended and not self._throttle.is_due

    async def _until_there_is_work(self) -> None:
        while not self._is_ended:
            self._changed.clear()
            self._put_back_what_is_due()
            self._leave_out_what_is_throttled()
            if len(self._session):
                return
            due = min((paused.not_before for paused in self._paused.values()), default=None)
            await self._pause(None if due is None else due - self._loop.time())

    async def _pause(self, seconds: float | None) -> None:
        """Wait so long, or until partitions come or the end does."""
        try:
            async with asyncio.timeout(seconds):
                await self._changed.wait()
        except TimeoutError:
            return

    def _put_back_what_is_due(self) -> None:
        if not self._paused:
            return
        now = self._loop.time()
        for key, paused in list(self._paused.items()):
            if paused.not_before <= now:
                del self._paused[key]
                self._session.add(key)

    def _leave_out_what_is_throttled(self) -> None:
        for key, pause_s in self._throttle.left_out():
            if key not in self._busy and key not in self._paused:
                self._quotas.times_not_asked += 1
                self._pause_partition(self._followed[key], pause_s)

    def _pause_partition(self, followed: _Followed, pause_s: float) -> None:
        followed.not_before = self._loop.time() + pause_s
        self._session.remove(followed.key)
        self._paused[followed.key] = followed

    def _next_request(self) -> ReplicaFetchRequest:
        limits = self._limits()
        session_id, session_epoch, named, forgotten = self._session.next_request()
        wanted = [self._position(self._followed[key], limits.max_bytes) for key in named]
        return ReplicaFetchRequest(
            self._node_id,
            self._broker_epoch(),
            session_id,
            session_epoch,
            wanted,
            forgotten,
            max_wait_ms=self._max_wait_ms(limits.wait_ms),
            min_bytes=limits.min_bytes,
            max_bytes=limits.response_bytes,
        )

    def _position(self, followed: _Followed, max_bytes: int) -> ReplicaWanted:
        follower = followed.asked_as = followed.follower
        topic_id, index = followed.key
        epoch, offset, last_epoch = follower.leader_epoch, follower.fetch_offset, follower.last_fetched_epoch
        if self._quotas.follower is not None:
            max_bytes = self._throttle.share(follower, max_bytes)
        return ReplicaWanted(topic_id, index, epoch, offset, last_epoch, follower.log_start_offset, max_bytes)

    def _max_wait_ms(self, wait_ms: int) -> int:
        if not self._session.is_complete:
            return 0
        if self._busy:
            return min(wait_ms, WAIT_WHILE_BUSY_MS)
        if self._paused:
            due_s = min(paused.not_before for paused in self._paused.values()) - self._loop.time()
            return max(0, min(wait_ms, int(due_s * 1000) + 1))
        return wait_ms

    # --- taking answers

    def _take_small(self, partitions: Sequence[ReplicaFetched]) -> _Handover | None:
        """Append an answer that is small; what is left to do, if anything."""
        if len(partitions) > FEW_PARTITIONS or sum(len(fetched.records) for fetched in partitions) > PIECE_BYTES:
            return _Handover(partitions)
        unflushed = []
        for fetched in partitions:
            followed = self._followed.get(fetched.key)
            if followed is not None and followed.is_asked:
                self._take_partition(followed, fetched, fetched.records)
                if followed.follower.awaits_flush:
                    unflushed.append(followed)
        return _Handover(unflushed=unflushed) if unflushed else None

    async def _take(self, partitions: Sequence[ReplicaFetched]) -> None:
        unflushed: list[_Followed] = []
        turn_ends = self._loop.time() + TURN_S
        for fetched in partitions:
            followed = self._followed.get(fetched.key)
            if followed is None or not followed.is_asked:
                continue
            for piece in _pieces(fetched.records):
                if self._loop.time() > turn_ends:
                    await asyncio.sleep(0)
                    turn_ends = self._loop.time() + TURN_S
                    if self._followed.get(fetched.key) is not followed or not followed.is_asked:
                        break
                if not self._take_partition(followed, fetched, piece):
                    break
            if followed.follower.awaits_flush:
                unflushed.append(followed)
        for followed in unflushed:
            await self._await_flush(followed)

    def _take_partition(self, followed: _Followed, fetched: ReplicaFetched, records: memoryview) -> bool:
        """Take a piece of the answer for a partition; whether the next piece may follow."""
        follower = followed.follower
        if fetched.error_code:
            self._take_error(followed, fetched.error_code)
            return False
        if fetched.diverging_epoch is not None:
            self._work(followed, partial(self._truncate, follower, EpochEnd(*fetched.diverging_epoch)))
            return False
        start = follower.start_before(records)
        if start is not None:
            self._work(followed, partial(self._begin_inside_a_batch, follower, start, fetched))
            return False
        position = follower.fetch_offset, follower.log_start_offset
        try:
            _append(follower, fetched, records)
        except StorageError as error:
            self._give_up(followed, error)
            return False
        except KafkaError as error:
            self._try_later(followed, error)
            return False
        followed.failures = 0
        if self._quotas.follower is not None:
            self._throttle.took(followed.key, follower, len(records), high_watermark=fetched.high_watermark)
        if (follower.fetch_offset, follower.log_start_offset) != position:
            self._session.add(followed.key)
        return True

    def _take_error(self, followed: _Followed, error_code: int) -> None:
        if error_code == OffsetOutOfRange.code:
            self._work(followed, partial(self._find_the_way_back, followed.follower))
        else:
            self._try_later(followed, kafka_error(error_code))

    def _try_later(self, followed: _Followed, error: MillstreamError | ValueError) -> None:
        """Leave the partition out for a while; if it is still followed in that role."""
        if self._followed.get(followed.key) is not followed:
            return
        if followed.failures == QUIET_FAILURES:
            self._troubles.is_tried_again(followed.follower.log.topic_partition, error)
        pause_s = min(_FIRST_PAUSE_S * 2 ** min(followed.failures, 20), self._limits().backoff_s)
        followed.failures += 1
        self._pause_partition(followed, pause_s)

    def _give_up(self, followed: _Followed, error: StorageError) -> None:
        """The disk failed: until the view says something new of the partition it is offline here. Too few descriptors may pass."""
        if followed.follower.log.directory.offline is None:
            self._try_later(followed, error)
            return
        self._troubles.is_given_up(followed.follower.log.topic_partition, error)
        if self._followed.get(followed.key) is followed:
            self.unfollow(followed.key)

    async def _await_flush(self, followed: _Followed) -> None:
        follower = followed.follower
        try:
            await follower.flushed()
        except StorageError as error:
            self._give_up(followed, error)
        except KafkaError as error:  # it plays another role now
            logger.debug("%r: %s", follower, error)

    # --- what takes longer, beside the others

    def _work(self, followed: _Followed, work: Callable[[], Awaitable[None]]) -> None:
        """Leave the partition out until the work on its log is done."""
        self._busy.add(followed.key)
        self._session.remove(followed.key)
        self._spawn(self._carry_out(followed, work))

    async def _carry_out(self, followed: _Followed, work: Callable[[], Awaitable[None]]) -> None:
        failure: MillstreamError | ValueError | None = None
        try:
            await work()
        except (MillstreamError, ValueError) as error:
            failure = error
        finally:
            self._busy.discard(followed.key)
        present = self._followed.get(followed.key)
        if present is None:
            return
        if isinstance(failure, StorageError):
            self._give_up(present, failure)
        elif failure is not None:
            self._try_later(present, failure)
        else:
            self._session.add(present.key)
        self._changed.set()

    async def _truncate(self, follower: Follower, diverging: EpochEnd) -> None:
        async with self._cutting:
            if not follower.is_current:
                return
            end, committed = follower.fetch_offset, follower.partition.high_watermark.value
            await follower.truncate(diverging)
        cut = follower.fetch_offset
        logger.info("%r was cut from %d to %d, where its history leaves the leader's", follower, end, cut)
        if cut < committed:
            logger.warning("%r had been committed up to %d, and lost that: was its leader elected uncleanly?", follower, committed)

    async def _begin_inside_a_batch(self, follower: Follower, start: int, fetched: ReplicaFetched) -> None:
        """The leader's log begins inside its first batch, which comes whole."""
        async with self._cutting:
            if follower.is_current:
                await follower.restart_at(start)
        if follower.is_current:
            _append(follower, fetched, fetched.records[: end_of_batches(fetched.records, 0, most=1)])

    async def _find_the_way_back(self, follower: Follower) -> None:
        """What comes next here is not in the leader's log: go on where that ends, or begin anew where it begins."""
        start, end = await self._leader_offsets.range_of(follower)
        if not 0 <= start <= end:
            raise ValueError(f"the leader's log cannot begin at {start} and end at {end}")
        async with self._cutting:
            if follower.is_current:
                await _go_back(follower, start, end)


async def _go_back(follower: Follower, start: int, end: int) -> None:
    """The leader's log goes from `start` to `end`: end, or begin, where it does."""
    own_end = follower.fetch_offset
    if end < own_end:
        logger.warning(
            "%r ends at %d, and its leader's log at %d: what is beyond is cut off (was its leader elected uncleanly?)",
            follower,
            own_end,
            end,
        )
        await follower.truncate_to(end)
    elif start > own_end:
        logger.warning("%r ends at %d, and its leader's log begins at %d: it begins anew there", follower, own_end, start)
        await follower.restart_at(start)
    else:
        raise OffsetOutOfRange(f"{own_end} is inside the leader's log, from {start} to {end}, which does not know the epoch before it")


def _append(follower: Follower, fetched: ReplicaFetched, records: memoryview) -> None:
    follower.append(records, high_watermark=fetched.high_watermark, leader_log_start=fetched.log_start_offset)


def _pieces(records: memoryview) -> Iterator[memoryview]:
    """The records in pieces that take a few milliseconds each; at least one, which may be empty."""
    position, size = 0, len(records)
    while size - position > PIECE_BYTES:
        end = end_of_batches(records, position, most=PIECE_BATCHES)
        if end == position:
            break  # a batch that is cut off, or makes no sense: the log says what is wrong with it
        yield records[position:end]
        position = end
    yield records[position:]
