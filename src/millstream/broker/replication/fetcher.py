"""Fetches from one leader what this broker follows of it: one request at a time for all its partitions, and the next as soon as the answer
is appended.

    connected ─ request (fetch session: only what changed) ─ long poll ─ answer ─ append per partition ─ flush where due ─ again

A partition that cannot be fetched now leaves the session while the others go on: after an error for a growing pause (at most
`replica.fetch.backoff.ms`; the view may bring a new leader meanwhile), and while its log is cut in a thread. One whose disk failed is given
up until the view says something new of it. An answer counts for a partition only if its role is the one that it was asked for with.

Nothing is done per record, and a large answer is appended in turns, so that clients of this broker do not wait for it.
"""

import asyncio
import logging
from collections.abc import Callable, Coroutine, Sequence
from typing import Any, Final

from millstream.broker.cluster.live_settings import LiveSettings
from millstream.broker.cluster.peers import Peer
from millstream.broker.replication.fetch_session import FetchSession
from millstream.broker.replication.leader_offsets import LeaderOffsets
from millstream.broker.tasks import Spawn
from millstream.client.errors import kafka_error
from millstream.client.replica_fetch import ReplicaFetched, ReplicaFetchRequest, ReplicaKey, ReplicaWanted
from millstream.cluster.follower import Follower
from millstream.errors import KafkaError, MillstreamError, OffsetOutOfRange, StorageError
from millstream.log.leader_epochs import EpochEnd

logger = logging.getLogger(__name__)

TURN_BYTES: Final = 2 << 20
"""Appended before others have a turn: some 2 ms."""
WAIT_WHILE_BUSY_MS: Final = 20
"""How long a fetch may wait while partitions are about to come back."""
_FIRST_PAUSE_S: Final = 0.02


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
        spawn: Spawn,
    ) -> None:
        self._peer = peer
        self._node_id = node_id
        self._broker_epoch = broker_epoch
        self._settings = settings
        self._leader_offsets = leader_offsets
        self._spawn = spawn
        self._loop = asyncio.get_running_loop()
        self._session = FetchSession()
        self._followed: dict[ReplicaKey, _Followed] = {}
        self._paused: dict[ReplicaKey, _Followed] = {}
        self._busy: set[ReplicaKey] = set()
        """What is worked on beside the fetches; it is put back when that is over."""
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

    def unfollow(self, key: ReplicaKey) -> None:
        """Fetch the partition no longer."""
        self._followed.pop(key, None)
        self._paused.pop(key, None)
        self._session.remove(key)

    def end(self) -> None:
        """Fetch nothing any more; `run` returns."""
        self._is_ended = True
        self._peer.close()
        self._changed.set()

    async def run(self) -> None:
        """Fetch until the end."""
        pause_s = _FIRST_PAUSE_S
        while not self._is_ended:
            await self._until_there_is_work()
            try:
                connection = await self._peer.connected()
                answer = await connection.send(self._next_request(), timeout_s=self._option_s("replica.socket.timeout.ms"))
                if answer.error_code:
                    raise kafka_error(answer.error_code)
            except MillstreamError as error:
                self._session.reset()
                logger.debug("nothing was fetched from broker %d: %s", self._peer.node_id, error)
                await self._pause(pause_s)
                pause_s = min(2 * pause_s, self._option_s("replica.fetch.backoff.ms"))
            else:
                self._session.answered(answer.session_id)
                pause_s = _FIRST_PAUSE_S
                await self._take(answer.partitions)

    # --- asking

    async def _until_there_is_work(self) -> None:
        while not self._is_ended:
            self._changed.clear()
            self._put_back_what_is_due()
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

    def _next_request(self) -> ReplicaFetchRequest:
        current = self._settings.current
        max_bytes = current.integer("replica.fetch.max.bytes")
        session_id, session_epoch, named, forgotten = self._session.next_request()
        wanted = [self._position(self._followed[key], max_bytes) for key in named]
        return ReplicaFetchRequest(
            self._node_id,
            self._broker_epoch(),
            session_id,
            session_epoch,
            wanted,
            forgotten,
            max_wait_ms=self._max_wait_ms(current.integer("replica.fetch.wait.max.ms")),
            min_bytes=current.integer("replica.fetch.min.bytes"),
            max_bytes=current.integer("replica.fetch.response.max.bytes"),
        )

    def _position(self, followed: _Followed, max_bytes: int) -> ReplicaWanted:
        follower = followed.asked_as = followed.follower
        topic_id, index = followed.key
        epoch, offset, last_epoch = follower.leader_epoch, follower.fetch_offset, follower.last_fetched_epoch
        return ReplicaWanted(topic_id, index, epoch, offset, last_epoch, follower.log_start_offset, max_bytes)

    def _max_wait_ms(self, wait_ms: int) -> int:
        if self._busy:
            return min(wait_ms, WAIT_WHILE_BUSY_MS)
        if self._paused:
            due_s = min(paused.not_before for paused in self._paused.values()) - self._loop.time()
            return max(0, min(wait_ms, int(due_s * 1000) + 1))
        return wait_ms

    def _option_s(self, name: str) -> float:
        return self._settings.current.integer(name) / 1000

    # --- taking answers

    async def _take(self, partitions: Sequence[ReplicaFetched]) -> None:
        appended_bytes = 0
        unflushed: list[_Followed] = []
        for fetched in partitions:
            followed = self._followed.get(fetched.key)
            if followed is None or followed.asked_as is not followed.follower or not followed.follower.is_current:
                continue
            self._take_partition(followed, fetched)
            if followed.follower.awaits_flush:
                unflushed.append(followed)
            appended_bytes += len(fetched.records)
            if appended_bytes >= TURN_BYTES:
                appended_bytes = 0
                await asyncio.sleep(0)
        for followed in unflushed:
            await self._await_flush(followed)

    def _take_partition(self, followed: _Followed, fetched: ReplicaFetched) -> None:
        follower = followed.follower
        if fetched.error_code:
            self._take_error(followed, fetched.error_code)
            return
        if fetched.diverging_epoch is not None:
            self._work(followed, self._truncate(follower, EpochEnd(*fetched.diverging_epoch)))
            return
        start = follower.start_before(fetched.records)
        if start is not None:
            self._work(followed, self._begin_inside_a_batch(follower, start, fetched))
            return
        position = follower.fetch_offset, follower.log_start_offset
        try:
            _append(follower, fetched)
        except StorageError as error:
            self._give_up(followed, error)
        except KafkaError as error:
            self._try_later(followed, error)
        else:
            followed.failures = 0
            if (follower.fetch_offset, follower.log_start_offset) != position:
                self._session.add(followed.key)

    def _take_error(self, followed: _Followed, error_code: int) -> None:
        if error_code == OffsetOutOfRange.code:
            self._work(followed, self._find_the_way_back(followed.follower))
        else:
            self._try_later(followed, kafka_error(error_code))

    def _try_later(self, followed: _Followed, error: MillstreamError | ValueError) -> None:
        """Leave the partition out for a while."""
        if followed.failures == 1:  # once is nothing: the leader may not have heard of its election yet
            logger.info("%r cannot be fetched and is tried again: %s: %s", followed.follower, type(error).__name__, error)
        pause_s = min(_FIRST_PAUSE_S * 2 ** min(followed.failures, 20), self._option_s("replica.fetch.backoff.ms"))
        followed.failures += 1
        followed.not_before = self._loop.time() + pause_s
        self._session.remove(followed.key)
        self._paused[followed.key] = followed

    def _give_up(self, followed: _Followed, error: StorageError) -> None:
        """The disk failed: until the view says something new of the partition it is offline here."""
        logger.error("%s is offline and is not copied any more: %s", followed.follower.log.topic_partition, error)
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

    def _work(self, followed: _Followed, work: Coroutine[Any, Any, None]) -> None:
        """Leave the partition out until the work on its log is done."""
        self._busy.add(followed.key)
        self._session.remove(followed.key)
        self._spawn(self._carry_out(followed, work))

    async def _carry_out(self, followed: _Followed, work: Coroutine[Any, Any, None]) -> None:
        failure: MillstreamError | ValueError | None = None
        try:
            await work
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
        end = follower.fetch_offset
        await follower.truncate(diverging)
        logger.info("%r was cut from %d to %d, where its history leaves the leader's", follower, end, follower.fetch_offset)

    async def _begin_inside_a_batch(self, follower: Follower, start: int, fetched: ReplicaFetched) -> None:
        """The leader's log begins inside its first batch, which comes whole."""
        await follower.restart_at(start)
        if follower.is_current:
            _append(follower, fetched)

    async def _find_the_way_back(self, follower: Follower) -> None:
        """What comes next here is not in the leader's log: go on where that ends, or begin anew where it begins."""
        start, end = await self._leader_offsets.range_of(follower)
        if not follower.is_current:
            return
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


def _append(follower: Follower, fetched: ReplicaFetched) -> None:
    follower.append(fetched.records, high_watermark=fetched.high_watermark, leader_log_start=fetched.log_start_offset)
