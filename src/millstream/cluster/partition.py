"""One partition as this broker keeps it: its log, how far it is committed, and the role that this broker plays for it.

The role is an object: a `Leader` (`cluster/leader`), a `Follower` (`cluster/follower`), or nothing, while the controller has not said, or
the partition has no leader. Whoever wants something that only a leader can do asks for it (`as_leader`) and is refused otherwise; so
nothing else asks who leads. Consumers may read in either role (`as_reader`). What outlives a change of roles stands here: the log, the
high watermark, and those who wait.

All changes are plain functions on the event loop. Invariants:
- `high_watermark` never passes the log end, and never falls while this broker leads;
- `durable` never passes what is on disk;
- a role belongs to one leader epoch: another epoch makes another object;
- a log that is being truncated in a thread keeps its `Follower` until that is over (`truncated` then takes the role that was decided).

It does not wait: who wants to wait gives `high_watermark` or `durable` a callback, and who reads registers with `watchers`.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, NamedTuple

from millstream.clock import Clock
from millstream.cluster.leader import ACKS_ALL, Leader
from millstream.cluster.watchers import Watchers
from millstream.cluster.watermark import Watermark
from millstream.coordination.partition_state import NO_LEADER, PartitionState
from millstream.errors import FencedLeaderEpoch, KafkaError, NotEnoughReplicasAfterAppend, NotLeaderOrFollower, UnknownLeaderEpoch
from millstream.log.log import Log

if TYPE_CHECKING:
    from millstream.cluster.follower import Follower

NO_EPOCH: Final = -1


@dataclass(frozen=True, slots=True)
class LocalBroker:
    """What the partitions of a broker need of it."""

    node_id: int
    clock: Clock
    request_flush: Callable[["Partition"], None]
    has_lease: Callable[[], bool]
    """Whether no other broker can have been made the leader by now (`cluster/lease`)."""
    lag_ms: Callable[[], int]
    """`replica.lag.time.max.ms`."""
    is_registered: Callable[[int], bool]
    """Whether a broker of that number is there."""
    in_sync_change_wanted: Callable[["Partition"], None]
    """A follower has caught up: the controller should be asked to take it into the in-sync set."""
    cannot_write: Callable[["Partition"], None]
    """The log of a partition that is led here cannot be written to, for want of file descriptors: another replica should lead."""
    on_follow: Callable[[Iterable["Partition"]], None]
    """These began or ceased to follow, or follow another leader, or in another epoch."""


class Appended(NamedTuple):
    """How much was appended."""

    messages: int
    size_bytes: int


class Partition:
    """A replica of a partition."""

    __slots__ = (
        "_before",
        "broker",
        "bytes_out",
        "durable",
        "failed_fetches",
        "failed_produces",
        "fetch_requests",
        "following",
        "high_watermark",
        "index",
        "leading",
        "log",
        "produce_requests",
        "state",
        "topic",
        "watchers",
    )

    def __init__(
        self, topic: str, index: int, log: Log, *, broker: LocalBroker, state: PartitionState, high_watermark: int | None = None
    ) -> None:
        """`high_watermark`: how far the log was known to be committed when it was last used; it has no role yet (`apply`)."""
        self.topic = topic
        self.index = index
        self.log = log
        self.state = state
        self.broker = broker
        self.leading: Leader | None = None
        self.following: Follower | None = None
        self.watchers = Watchers()
        """Readers that wait for more."""
        self.durable = Watermark(log.durable_end)
        self.high_watermark = Watermark(min(max(high_watermark or 0, log.log_start_offset), log.log_end_offset))
        # What clients did here since the broker started, counted as Kafka counts it (`broker.metrics`).
        self.produce_requests = self.failed_produces = self.fetch_requests = self.failed_fetches = self.bytes_out = 0
        self._before = Appended(0, 0)
        """What was appended in former leader epochs."""

    def __repr__(self) -> str:
        return f"Partition({self.topic}-{self.index})"

    @property
    def role(self) -> "Leader | Follower | None":
        """What this broker is for the partition now."""
        return self.leading or self.following

    @property
    def is_leader(self) -> bool:
        """Whether this broker leads the partition."""
        return self.leading is not None

    @property
    def appended(self) -> Appended:
        """What was appended since the broker started, as the leader; an append counts nothing, the ends of the log say it."""
        leading, before = self.leading, self._before
        if leading is None:
            return before
        return Appended(before.messages + leading.messages_in, before.size_bytes + leading.bytes_in)

    def forget_replicated_transactions(self) -> None:
        """Do not keep what only readers of committed data would ask for, and there may be none: of a follower, or of an idle topic."""
        transactions = self.log.producers.transactions
        if transactions is not None:
            transactions.replicated(self.high_watermark.value)

    @property
    def last_stable_offset(self) -> int:
        """The offset below which every transaction is decided; the log says what holds it back."""
        return self.log.last_stable_offset(self.high_watermark.value)

    def as_leader(self, leader_epoch: int = NO_EPOCH) -> Leader:
        """The role of the leader; raises unless this broker has it, in the epoch that the client believes in (if it says one)."""
        leading, state = self.leading, self.state
        if leader_epoch not in (NO_EPOCH, state.leader_epoch):
            raise self._other_epoch(leader_epoch)
        if leading is None:
            raise NotLeaderOrFollower(f"broker {self.broker.node_id} does not lead {self.topic}-{self.index}; broker {state.leader} does")
        return leading

    def as_reader(self, leader_epoch: int = NO_EPOCH) -> "Leader | Follower":
        """The role in which consumers read here (KIP-392); raises if there is none, or the client believes in another leader epoch."""
        leading, state = self.leading, self.state
        if leader_epoch not in (NO_EPOCH, state.leader_epoch):
            raise self._other_epoch(leader_epoch)
        if leading is not None:
            return leading
        following = self.following
        if following is None or following.is_truncating:
            raise NotLeaderOrFollower(f"{self.topic}-{self.index} cannot be read on broker {self.broker.node_id} now")
        return following

    def _other_epoch(self, leader_epoch: int) -> KafkaError:
        known = self.state.leader_epoch
        error = FencedLeaderEpoch if leader_epoch < known else UnknownLeaderEpoch
        return error(f"{self.topic}-{self.index} is in leader epoch {known}, the request says {leader_epoch}")

    def why_not_acknowledged(self, acks: int) -> KafkaError | None:
        """Why what was appended here with these acks, and is committed by now, must not be acknowledged; None if it may be."""
        if acks == ACKS_ALL and self.leading is not None:
            try:
                self.leading.check_still_enough()
            except NotEnoughReplicasAfterAppend as error:
                return error
        return None

    # --- roles

    def apply(self, state: PartitionState) -> bool:
        """Take over what the controller decided, unless something later is known; whether whom it follows has changed."""
        if state.partition_epoch < self.state.partition_epoch or state.leader_epoch < self.state.leader_epoch:
            return False
        self.state = state
        return self.settle()

    def settle(self) -> bool:
        """Take the role that the state gives, as soon as the log is free; whether whom it follows has changed."""
        state, leading, following = self.state, self.leading, self.following
        if following is not None and following.is_truncating:
            return False
        if state.leader == self.broker.node_id:
            if leading is not None and leading.leader_epoch == state.leader_epoch:
                leading.decided(state)
                return False
            if leading is not None:
                leading.low_watermark.fail(NotLeaderOrFollower(f"{self.topic}-{self.index} is in leader epoch {state.leader_epoch} now"))
            self.following = None
            self._before = self.appended
            self.leading = Leader(self, state)
            self.leading.commit()
            if self.log.is_flush_required:
                self.broker.request_flush(self)
            self.watchers.changed()
        elif state.leader != NO_LEADER and self.broker.node_id in state.replicas:
            if following is not None and (following.leader, following.leader_epoch) == (state.leader, state.leader_epoch):
                return False
            from millstream.cluster.follower import Follower  # a broker without others starts sooner without it

            self._leave_role()
            self.following = Follower(self, leader=state.leader, leader_epoch=state.leader_epoch)
            return True
        else:
            self._leave_role()
        return following is not None

    def _leave_role(self) -> None:
        if self.leading is not None:
            self.fail_waiters(NotLeaderOrFollower(f"broker {self.broker.node_id} no longer leads {self.topic}-{self.index}"))
        elif self.following is not None:
            self.watchers.changed()
        self._before = self.appended
        self.leading = self.following = None

    # --- the log under it

    def flushed(self) -> None:
        """The log was flushed: what is on disk may be acknowledged and shown."""
        self.durable.advance(self.log.durable_end)
        if self.leading is not None:
            self.leading.commit()

    def truncated(self) -> None:
        """The log was cut off, or begun anew: nothing is said any more of what is gone. Only a follower does that."""
        log = self.log
        self.durable.fail(NotLeaderOrFollower(f"the end of {self.topic}-{self.index} was cut off"))
        self.durable.fall_to(log.durable_end)
        self.high_watermark.fall_to(log.log_end_offset)
        self.high_watermark.advance(log.log_start_offset)
        self.watchers.changed()
        if self.settle():
            self.broker.on_follow([self])

    def fail_waiters(self, error: KafkaError) -> None:
        """Whoever waits for this partition waits in vain; its readers look what became of it."""
        self.high_watermark.fail(error)
        self.durable.fail(error)
        if self.leading is not None:
            self.leading.low_watermark.fail(error)
        self.watchers.changed()
