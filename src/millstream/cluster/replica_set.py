"""The replicas of a partition as its leader sees them: how far each has come, who is in sync, how far all of it is committed. Pure.

The *high watermark* is the smallest log end of those that count: the in-sync replicas, those of an in-sync set that was asked for and not
answered yet (whichever of the two comes to hold, nothing below the high watermark is missing from it; KIP-497), and followers that are so
close that they are about to join. It stands still while there are fewer in-sync replicas than `min.insync.replicas` asks for (KIP-966): the
controller then trusts those that were in sync when it stopped.

A follower says how far it has come by asking for the next offset, in a fetch of the leader's own epoch and of its own present life
(KIP-320, broker epochs): anything else says nothing. It is *caught up* at a time when it had everything that the leader had then. Who has
not been for `replica.lag.time.max.ms` leaves the in-sync set; who has reached the high watermark, and the start of the leader's epoch,
joins it. One change is under way at a time; the controller answers with the new state or refuses.

A follower that has everything does not ask again for each partition: it has a `Position` in a fetch session, and each request of that says
that it is still there. This is looked up when the log goes on (`grew_from`): up to then it was caught up. A follower that is at the end is
in sync, however long ago it asked, as in Kafka; if its broker is gone the controller knows.
"""

from collections.abc import Callable, Collection, Mapping
from typing import Final, Protocol

from millstream.coordination.partition_state import PartitionState

UNKNOWN: Final = -1


class Position(Protocol):
    """Where a follower is within its fetch session, which does not say it again while it stays there."""

    @property
    def fetched_ms(self) -> int:
        """When the follower was last known to be there: at the last request of the session, while the partition belongs to it."""


class Follower:
    """What the leader knows of a follower."""

    __slots__ = ("broker_epoch", "caught_up_ms", "fetched_ms", "leader_end_when_fetched", "log_end_offset", "log_start_offset", "position")

    def __init__(self, *, caught_up_ms: int) -> None:
        self.broker_epoch = UNKNOWN
        self.log_end_offset = UNKNOWN
        self.log_start_offset = UNKNOWN
        self.caught_up_ms = caught_up_ms
        """When it last had everything that the leader had."""
        self.fetched_ms = caught_up_ms
        self.leader_end_when_fetched = UNKNOWN
        """What it has to reach to have been caught up at its last fetch."""
        self.position: Position | None = None

    def fetched(self, offset: int, *, log_start_offset: int, leader_end: int, now_ms: int, position: Position | None) -> None:
        """It has everything below `offset`."""
        if offset >= leader_end:
            self.caught_up_ms = now_ms
        elif self.leader_end_when_fetched != UNKNOWN and offset >= self.leader_end_when_fetched:
            self.caught_up_ms = max(self.caught_up_ms, self.fetched_ms)
        self.log_end_offset = offset
        self.log_start_offset = log_start_offset
        self.fetched_ms = now_ms
        self.leader_end_when_fetched = leader_end
        self.position = position


class ReplicaSet:
    """The leader's view of the replicas, from the moment it began to lead in an epoch."""

    __slots__ = (
        "_counted",
        "_followers",
        "_lag_ms",
        "_leader",
        "_pending",
        "epoch_start_offset",
        "has_followers",
        "has_outsiders",
        "high_watermark",
        "state",
    )

    def __init__(
        self, leader: int, state: PartitionState, *, high_watermark: int, epoch_start_offset: int, lag_ms: int, now_ms: int
    ) -> None:
        self.state = state
        self.high_watermark = high_watermark
        self.epoch_start_offset = epoch_start_offset
        """Where the leader's own epoch begins: who has less may have another history."""
        self._leader = leader
        self._lag_ms = lag_ms
        self._pending: frozenset[int] | None = None
        self._followers: dict[int, Follower] = {}
        self.has_followers = False
        """Whether there are other replicas at all, in sync or not."""
        self.has_outsiders = False
        """Whether some of them do not count yet, and may be about to join."""
        self._counted: tuple[Follower, ...] = ()
        self._take_followers(now_ms)

    # --- followers ----------------------------------------------------------------------------------------------------------------------

    def fetched(
        self,
        replica: int,
        offset: int,
        *,
        broker_epoch: int,
        log_start_offset: int,
        leader_end: int,
        now_ms: int,
        position: Position | None = None,
    ) -> bool:
        """A follower asked for `offset` in the leader's epoch; False if it is none, or speaks for a former life of its broker.

        `position` if the requests that follow do not repeat it.
        """
        follower = self._followers.get(replica)
        if follower is None or broker_epoch < follower.broker_epoch:
            return False
        if broker_epoch > follower.broker_epoch:
            follower.broker_epoch = broker_epoch
            follower.leader_end_when_fetched = UNKNOWN
            if replica not in self.state.in_sync_replicas:
                # That its former life had caught up says nothing of this one: it may have missed any amount, and is not waited for.
                follower.caught_up_ms = self._too_long_before(now_ms)
        follower.fetched(offset, log_start_offset=log_start_offset, leader_end=leader_end, now_ms=now_ms, position=position)
        return True

    def grew_from(self, log_end: int) -> None:
        """The leader's log goes on from `log_end`: a follower that was there had everything until now, if it was still fetching."""
        for follower in self._followers.values():
            if follower.log_end_offset == log_end and follower.position is not None:
                follower.caught_up_ms = max(follower.caught_up_ms, follower.position.fetched_ms)

    def advance(
        self, log_end: int, *, min_insync_replicas: int, now_ms: int, is_able: Callable[[int], bool] = lambda _replica: True
    ) -> int:
        """The high watermark, when the leader's own log is complete and on disk up to `log_end`; it never goes back.

        `is_able`: whether the broker of that number is there; one that is gone is not about to join, however close it was.
        """
        if not self.has_followers:
            self.high_watermark = max(self.high_watermark, log_end)
            return self.high_watermark
        end = log_end
        for follower in self._counted:
            end = min(end, follower.log_end_offset)
        if end <= self.high_watermark:
            return self.high_watermark
        state = self.state
        if state.eligible_leaders or len(state.in_sync_replicas) < min(min_insync_replicas, len(state.replicas)):
            # While there are eligible leaders they have everything committed: a minimum that was lowered counts when they are let go.
            return self.high_watermark
        if self.has_outsiders:
            for replica, follower in self._followers.items():
                if follower.log_end_offset < end and self._is_about_to_join(replica, follower, now_ms) and is_able(replica):
                    end = follower.log_end_offset
        self.high_watermark = max(self.high_watermark, end)
        return self.high_watermark

    def _is_about_to_join(self, replica: int, follower: Follower, now_ms: int) -> bool:
        is_joining = replica not in self.state.in_sync_replicas and follower.log_end_offset >= self.epoch_start_offset
        return is_joining and now_ms - follower.caught_up_ms <= self._lag_ms and follower.leader_end_when_fetched != UNKNOWN

    def is_follower(self, replica: int) -> bool:
        """Whether it is one of the other replicas."""
        return replica in self._followers

    def closest_reader(self, offset: int, *, near: Collection[int]) -> int | None:
        """The in-sync follower among `near` that has most of those that have this offset; None if there is none (KIP-392).

        Kafka's order: how much it has, how lately it had everything, its number. One that is not in sync could fall behind for ever.
        """
        best: tuple[int, int, int] | None = None
        for replica in near:
            follower = self._followers.get(replica)
            if follower is None or replica not in self.state.in_sync_replicas:
                continue
            if follower.log_start_offset <= offset <= follower.log_end_offset:
                found = follower.log_end_offset, follower.caught_up_ms, replica
                best = found if best is None or found > best else best
        return None if best is None else best[2]

    def low_watermark(self, log_start_offset: int, *, is_counted: Callable[[int], bool]) -> int:
        """Where the log begins on the leader and on all followers that count: what is before it is deleted there."""
        starts = (follower.log_start_offset for replica, follower in self._followers.items() if is_counted(replica))
        return min(log_start_offset, min(starts, default=log_start_offset))

    # --- the in-sync set ----------------------------------------------------------------------------------------------------------------

    def wanted_change(self, log_end: int, *, able: Collection[int], now_ms: int) -> Mapping[int, int] | None:
        """The in-sync set to ask the controller for, with the lives in which the replicas were seen; None if it is right as it is.

        `able` are the brokers that are registered and not stopping.
        """
        if self._pending is not None:
            return None
        in_sync = self.state.in_sync_replicas
        stays = [replica for replica in in_sync if replica == self._leader or self._is_caught_up(self._followers[replica], log_end, now_ms)]
        joins = [
            replica
            for replica, follower in self._followers.items()
            if replica not in in_sync and replica in able and self._has_committed(follower)
        ]
        if not joins and len(stays) == len(in_sync):
            return None
        return {replica: self._epoch_of(replica) for replica in (*stays, *joins)}

    def resignation(self, *, able: Collection[int]) -> Mapping[int, int] | None:
        """The in-sync set that a leader asks for that cannot write any more: all but itself; None if no other could lead."""
        if self._pending is not None:
            return None
        others = [replica for replica in self.state.in_sync_replicas if replica != self._leader and replica in able]
        return {replica: self._epoch_of(replica) for replica in others} or None

    def may_join(self, replica: int) -> bool:
        """Whether the follower belongs into the in-sync set, is not in it, and no change is under way that could take it in."""
        follower = self._followers.get(replica)
        is_out = self._pending is None and replica not in self.state.in_sync_replicas
        return is_out and follower is not None and self._has_committed(follower)

    def _has_committed(self, follower: Follower) -> bool:
        return follower.log_end_offset >= max(self.high_watermark, self.epoch_start_offset)

    def _is_caught_up(self, follower: Follower, log_end: int, now_ms: int) -> bool:
        return follower.log_end_offset == log_end or now_ms - follower.caught_up_ms <= self._lag_ms

    def _epoch_of(self, replica: int) -> int:
        return UNKNOWN if replica == self._leader else self._followers[replica].broker_epoch

    def asked(self, in_sync: Collection[int]) -> None:
        """The controller was asked for this in-sync set: until it answers, its members count as well as the present ones."""
        self._pending = frozenset(in_sync)
        self._count()

    def refused(self) -> None:
        """The controller will not do what it was asked for."""
        self._pending = None
        self._count()

    def decided(self, state: PartitionState, *, now_ms: int) -> None:
        """A newer state of the same leader epoch, whoever asked for it. An answer that is not known to have come stays possible."""
        if state.partition_epoch < self.state.partition_epoch:
            return
        if state.partition_epoch > self.state.partition_epoch:
            # Whatever was asked for was based on an older state: it was this, or it will be refused.
            self._pending = None
        for replica in set(state.in_sync_replicas) - {*self.state.in_sync_replicas, self._leader}:
            if replica in self._followers:
                # It had reached the high watermark, not the end: it is given the time to get there.
                self._followers[replica].caught_up_ms = now_ms
        for replica in set(self.state.in_sync_replicas).difference(state.in_sync_replicas):
            if replica in self._followers:
                # Its broker is gone, or it fell behind: it is not about to join, and nothing waits for it, until it has caught up again.
                follower = self._followers[replica]
                follower.leader_end_when_fetched, follower.caught_up_ms = UNKNOWN, self._too_long_before(now_ms)
        self.state = state
        self._take_followers(now_ms)

    def _too_long_before(self, now_ms: int) -> int:
        """When a follower had everything that is not known to have had it lately."""
        return now_ms - self._lag_ms - 1

    def _take_followers(self, now_ms: int) -> None:
        former = self._followers
        self._followers = {
            replica: former.get(replica)
            or Follower(caught_up_ms=now_ms if replica in self.state.in_sync_replicas else self._too_long_before(now_ms))
            for replica in self.state.replicas
            if replica != self._leader
        }
        self.has_followers = bool(self._followers)
        self._count()

    def _count(self) -> None:
        counted = {*self.state.in_sync_replicas, *(self._pending or ())} - {self._leader}
        self._counted = tuple(self._followers[replica] for replica in sorted(counted))
        self.has_outsiders = len(self._counted) < len(self._followers)
