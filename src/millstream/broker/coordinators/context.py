"""One partition of a coordinator's topic, and the machine of what is kept in it: the shell around a pure machine.

A context is loading, active or failed. Loading: its log is being replayed, everything is answered with COORDINATOR_LOAD_IN_PROGRESS.
Active: operations go to the machine, what it decides is appended as one batch, and the answers leave when the log is committed that far; so
do answers and reads without records of their own, because they may rest on records that are not committed yet (Kafka does the same).
Failed: a disk failed, or the partition is led elsewhere. A context belongs to one leader epoch of its partition: as soon as this broker
leads no longer, or anew, everything is answered with NOT_COORDINATOR.

A log with several replicas is committed when they have it. If that takes longer than `offsets.commit.timeout.ms`, those who wait are
answered with COORDINATOR_NOT_AVAILABLE; the machine stays as it is, because the records are in the log and may still be committed.
What else follows from a decision (`Outcome.has_consequences`) waits for the commit however long it takes, or until the machine is given up:
the next one decides about it anew.

What is written in a client's transaction has a batch of its own. The machine takes it when it is in the log, so that a producer that is
fenced is answered and nothing else happens.

Operations that are written `batched` share one batch with what else is decided in the same turn of the event loop, as in Kafka; their
answers wait for that, and so does whatever is decided after them.

The machine has taken its records as written when it hands them out. So if an append fails the machine knows more than the log: it is given
up, all who wait for it look for the coordinator again, and the log is replayed into a new one (`CoordinatorRuntime` decides when).

One timer per context, for the machine's earliest deadline; no task.
"""

import asyncio
import logging
from collections.abc import Callable, Mapping
from functools import partial
from typing import Final, Generic, Protocol, TypeVar, cast

from millstream.clock import Clock
from millstream.cluster.leader import ACKS_ALL
from millstream.cluster.partition import Partition
from millstream.coordinator_shard import CoordinatorRecord, CoordinatorShard, Fields, Outcome, Waiter
from millstream.errors import (
    CoordinatorLoadInProgress,
    CoordinatorNotAvailable,
    InvalidProducerEpoch,
    KafkaError,
    MessageTooLarge,
    NotCoordinator,
    NotEnoughReplicas,
    NotEnoughReplicasAfterAppend,
    NotLeaderOrFollower,
    RecordListTooLarge,
    RequestTimedOut,
    StorageError,
    UnknownServerError,
    UnknownTopicOrPartition,
)
from millstream.wire.compression import Codec
from millstream.wire.records import ProducerStamp, batch_of, encode_key_values

logger = logging.getLogger(__name__)

SMALLEST_DELAY_MS: Final = 1
RETRY_DELAY_MS: Final = 1_000

Replies = list[tuple[Waiter, Fields]]
ShardT = TypeVar("ShardT", bound=CoordinatorShard)


class Answerable(Protocol):
    """What waits for an answer of a coordinator."""

    def answer(self, fields: Fields) -> None:
        """Here it is; called once."""

    def fail(self, error: KafkaError) -> None:
        """There is none, because of this; called instead of `answer`."""


class CoordinatorContext(Generic[ShardT]):
    """What one partition holds."""

    def __init__(
        self,
        partition: Partition,
        *,
        clock: Clock,
        codec: Codec,
        commit_timeout_ms: int,
        on_committed: Callable[["CoordinatorContext[ShardT]", Outcome], None] | None,
        on_failed: Callable[["CoordinatorContext[ShardT]"], None],
    ) -> None:
        self.partition = partition
        self.leading = partition.as_leader()
        self.is_in_use = True
        """Whether it is loading or active."""
        self._shard: ShardT | None = None
        self._clock = clock
        self._codec = codec
        self._on_committed = on_committed
        self._on_failed = on_failed
        self._commit_timeout_ms = commit_timeout_ms
        self._uncommitted: dict[object, tuple[int, Replies]] = {}
        """Answers that wait for the log to be committed, by the tokens of their waits, the earliest deadline first."""
        self._consequences: dict[object, Outcome] = {}
        """What follows from decisions that are not committed yet, by the tokens of their waits."""
        self._commit_timer: asyncio.TimerHandle | None = None
        self._written = 0
        self._batch: Outcome | None = None
        """What is decided and not written yet."""
        self._timer: asyncio.TimerHandle | None = None
        self._timer_at_ms = 0
        # Deadlines must not jump when the clock of the computer is set: time goes on from here at its own pace.
        self._ahead_ms = clock.now_ms() - clock.monotonic_ms()

    def __repr__(self) -> str:
        return f"CoordinatorContext({self.partition.topic}-{self.partition.index})"

    @property
    def shard(self) -> ShardT:
        """The machine, to read from; raises what clients are answered while there is none."""
        if not self.is_led:
            raise NotCoordinator(f"this broker leads {self.partition.topic}-{self.partition.index} no longer")
        if self._shard is not None:
            return self._shard
        if self.is_in_use:
            raise CoordinatorLoadInProgress("the coordinator is being read from its log; try again")
        raise NotCoordinator("the log of the coordinator cannot be used here")

    @property
    def is_led(self) -> bool:
        """Whether this broker still leads the partition, in the epoch in which the log was read."""
        return self.partition.leading is self.leading

    @property
    def is_active(self) -> bool:
        """Whether operations are taken."""
        return self._shard is not None and self.is_led

    @property
    def shows_committed(self) -> bool:
        """Whether the machine can be read without waiting: all that it knows is committed."""
        return self.is_active and self._batch is None and self.partition.high_watermark.value >= self._written

    @property
    def has_records(self) -> bool:
        """Whether there is something to replay."""
        log = self.partition.log
        return log.log_start_offset < log.log_end_offset

    def now_ms(self) -> int:
        """Milliseconds since 1970 as the machine counts them."""
        return self._ahead_ms + self._clock.monotonic_ms()

    # --- operations

    def check_active(self) -> None:
        """Raise what clients are answered while there is no machine."""
        if not self.is_active:
            self.shard  # noqa: B018 -- raises

    def check_writable(self) -> None:
        """Raise if nothing can be written for now. Asked before, because a machine whose records cannot be written has to be given up."""
        try:
            self.leading.check_enough_in_sync()
        except NotEnoughReplicas as error:
            raise as_coordinator_error(error) from None

    def write(
        self, operation: Callable[[ShardT, int], Outcome], *, batched: bool = False, transaction: ProducerStamp | None = None
    ) -> None:
        """Let the machine decide something at the present time; its answers go out now or later.

        `transaction`: the records belong to the open transaction of this producer.
        """
        if transaction is not None:
            self.write_batch()
        shard = self.shard
        try:
            outcome = operation(shard, self.now_ms())
        except Exception:
            # A mistake of ours, and how much of it was done is not known: what the log says holds.
            self.fail(UnknownServerError("the coordinator failed"))
            raise
        if batched and (outcome.records or self._batch is not None):
            self._add_to_batch(outcome)
        else:
            self._settle(outcome, transaction=transaction)

    def write_encoded(self, count: int, operation: Callable[[ShardT, int], bytes | None]) -> bool:
        """Append `count` records that the machine encodes itself; True when they are committed and may be answered at once.

        False if it has to come as an ordinary write: nothing was done, or the machine is given up and says so.
        """
        self.write_batch()
        shard = self._shard
        if shard is None or not self.is_led or not self.leading.commits_at_once(count):
            return False
        try:
            records = operation(shard, self.now_ms())
            if records is None:
                return False
            now_ms = self._clock.now_ms()
            self._written = self._append_batch(batch_of(records, count=count, timestamp=now_ms, codec=self._codec), now_ms=now_ms)
        except KafkaError as error:
            self.fail(error)
            return False
        except Exception:
            # As in `write`: what the log says holds.
            self.fail(UnknownServerError("the coordinator failed"))
            raise
        return True

    def read(self, question: Callable[[ShardT], Mapping[str, object]], reply: Answerable) -> None:
        """Answer from what the machine knows, as soon as nothing that it may have shown can be lost.

        Only with the lease: without it another broker may lead, and have taken later commits. Until that is known the client asks here
        again: librdkafka never asks again for the offsets of an assignment that NOT_COORDINATOR was the answer to, and mostly it is
        only ZooKeeper that is slow.
        """
        outcome = Outcome()
        shard = self.shard
        try:
            self.leading.check_lease()
        except NotLeaderOrFollower as error:
            raise CoordinatorLoadInProgress(str(error)) from None
        outcome.reply(reply, dict(question(shard)))
        if self._batch is not None:
            self._add_to_batch(outcome)
        else:
            self._answer(outcome.replies)

    def write_batch(self) -> None:
        """Write what was decided in this turn of the loop now: what the machine knows is about to be shown."""
        if self._batch is not None:
            self._settle(Outcome())

    def marker_appended(self, producer_id: int, *, is_commit: bool, next_offset: int) -> None:
        """The end of a producer's transaction stands in the log, before `next_offset`; what is shown from now on waits for its commit."""
        self.shard.end_transaction(producer_id, is_commit=is_commit)
        self._written = next_offset

    # --- its life

    def begin_loading(self) -> None:
        """The log is about to be replayed."""
        self.is_in_use = True

    def activate(self, shard: ShardT) -> None:
        """The log has been replayed into `shard`: take operations from now on."""
        self._shard = shard
        self._written = self.partition.log.log_end_offset
        self._settle(shard.loaded(self.now_ms()))

    def fail(self, error: KafkaError) -> None:
        """What the machine knows is not what the log says, or the log is gone: unload it, and see whether loading it again can help."""
        if self._shard is not None:
            logger.error("%s-%d: its coordinator stops: %s", self.partition.topic, self.partition.index, error)
        self.unload(error)
        self._on_failed(self)

    def unload(self, error: KafkaError) -> None:
        """Forget the machine and answer all who wait for it; what the log holds stays."""
        batch, shard, uncommitted = self._batch, self._shard, self._uncommitted
        self.close()
        self._shard = None
        self.is_in_use = False
        for token, (_, replies) in uncommitted.items():
            self.partition.high_watermark.cancel(token)
            _fail(replies, NotCoordinator(str(error)))
        if batch is not None:
            _fail(batch.replies, NotCoordinator(str(error)))
        if shard is not None:
            _send(shard.unloaded().replies)

    def close(self) -> None:
        """The broker stops, or the machine is unloaded: nothing is due any more, and nothing is written that was not answered."""
        self._batch = None
        self._uncommitted = {}
        for token in self._consequences:
            self.partition.high_watermark.cancel(token)
        self._consequences = {}
        self._cancel_timer()
        if self._commit_timer is not None:
            self._commit_timer.cancel()
            self._commit_timer = None

    # --- writing and answering

    def _add_to_batch(self, outcome: Outcome) -> None:
        """Settle this at the end of the loop's turn, with all else that is decided until then."""
        if self._batch is None:
            self._batch = outcome
            asyncio.get_running_loop().call_soon(self.write_batch)
        else:
            self._batch.merge(outcome)

    def _settle(self, outcome: Outcome, *, transaction: ProducerStamp | None = None) -> None:
        """Write what was decided, send the answers that may go, and see to what is due next."""
        if self._batch is not None:
            batch, self._batch = self._batch, None
            batch.merge(outcome)
            outcome = batch
        if outcome.records:
            try:
                self._written = self._append(outcome.records, transaction=transaction)
                if transaction is not None:
                    self._apply_pending(outcome.records, transaction)
            except InvalidProducerEpoch as error:
                _fail(outcome.replies, error)
                return
            except KafkaError as error:
                _fail(outcome.replies, as_coordinator_error(error))
                self.fail(error)
                return
            except Exception:
                # As in `write`: what the log says holds.
                failure = UnknownServerError("the coordinator failed")
                _fail(outcome.replies, NotCoordinator(str(failure)))
                self.fail(failure)
                raise
        if outcome.replies:
            self._answer(outcome.replies)
        self._schedule()
        if outcome.has_consequences:
            token = object()
            self._consequences[token] = outcome
            if self.partition.high_watermark.value >= self._written:
                self._follow_up(token)
            else:
                self.partition.high_watermark.wait_for(self._written, partial(self._consequences_due, token), token=token)

    def _consequences_due(self, token: object, error: KafkaError | None) -> None:
        """Records are committed that something follows from: appends to other logs, which must not come in the middle of the fetch
        whose arrival has committed these. It may have passed those logs already, and would wait without noticing."""
        if error is None:
            asyncio.get_running_loop().call_soon(self._follow_up, token)
        else:
            self._consequences.pop(token, None)

    def _follow_up(self, token: object) -> None:
        outcome = self._consequences.pop(token, None)
        if outcome is not None and self._on_committed is not None and self.is_active:
            self._on_committed(self, outcome)

    def _apply_pending(self, records: list[CoordinatorRecord], transaction: ProducerStamp) -> None:
        assert self._shard is not None
        for record in records:
            self._shard.apply_pending(record, transaction.producer_id)

    def _append(self, records: list[CoordinatorRecord], *, transaction: ProducerStamp | None = None) -> int:
        """Append the records as one batch, or as several if they are very many; the offset after it."""
        now_ms = self._clock.now_ms()
        batch = encode_key_values(records, timestamp=now_ms, codec=self._codec, transaction=transaction)
        limit = self.partition.log.config.max_message_bytes
        if len(batch) > limit:
            # Records of one decision often repeat each other. What is one record and still too large is written as it is.
            batch = encode_key_values(records, timestamp=now_ms, codec=Codec.ZSTD, transaction=transaction)
            if len(batch) > limit and len(records) > 1:
                return self._append_halves(records, transaction)
        try:
            return self._append_batch(batch, now_ms=now_ms)
        except (MessageTooLarge, RecordListTooLarge):
            # Segments of the topic may be small, and its `compression.type` may undo ours. Nothing was written.
            if len(records) == 1:
                raise
            return self._append_halves(records, transaction)

    def _append_halves(self, records: list[CoordinatorRecord], transaction: ProducerStamp | None) -> int:
        half = len(records) // 2
        self._append(records[:half], transaction=transaction)
        return self._append(records[half:], transaction=transaction)

    def _append_batch(self, batch: bytes, *, now_ms: int) -> int:
        if not self.is_led:
            # What was decided in one epoch is not written in another.
            raise NotLeaderOrFollower(f"this broker leads {self.partition.topic}-{self.partition.index} no longer")
        result = self.leading.append(batch, acks=ACKS_ALL, now_ms=now_ms, is_own=True)
        return result.last_offset + 1

    def _answer(self, replies: Replies) -> None:
        watermark = self.partition.high_watermark
        if watermark.value >= self._written:
            _send(replies)
            return
        token = object()
        self._uncommitted[token] = (self._clock.monotonic_ms() + self._commit_timeout_ms, replies)
        watermark.wait_for(self._written, partial(self._committed, token), token=token)
        if self._commit_timer is None:
            self._time_commits()

    def _committed(self, token: object, error: KafkaError | None) -> None:
        waiting = self._uncommitted.pop(token, None)
        if waiting is None:
            return
        if error is None:
            _send(waiting[1])
            return
        _fail(waiting[1], as_coordinator_error(error))
        if self._shard is not None:
            self.fail(error)

    def _time_commits(self) -> None:
        """Look again when the first of those who wait for a commit has waited long enough."""
        deadline_ms = next(iter(self._uncommitted.values()))[0]
        delay_ms = max(deadline_ms - self._clock.monotonic_ms(), SMALLEST_DELAY_MS)
        self._commit_timer = asyncio.get_running_loop().call_later(delay_ms / 1000, self._end_waits)

    def _end_waits(self) -> None:
        self._commit_timer = None
        now_ms = self._clock.monotonic_ms()
        for token, (deadline_ms, replies) in list(self._uncommitted.items()):
            if deadline_ms > now_ms:
                break
            del self._uncommitted[token]
            self.partition.high_watermark.cancel(token)
            _fail(replies, CoordinatorNotAvailable(f"the log was not committed within {self._commit_timeout_ms} ms"))
        if self._uncommitted:
            self._time_commits()

    # --- time

    def _schedule(self) -> None:
        deadline_ms = None if self._shard is None else self._shard.next_deadline_ms()
        if deadline_ms is None:
            self._cancel_timer()
            return
        if self._timer is not None:
            if self._timer_at_ms <= deadline_ms:
                # It comes in time; if too early, it finds nothing due and asks again.
                return
            self._timer.cancel()
        self._timer_at_ms = deadline_ms
        delay_ms = max(deadline_ms - self.now_ms(), SMALLEST_DELAY_MS)
        self._timer = asyncio.get_running_loop().call_later(delay_ms / 1000, self._tick)

    def _cancel_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _tick(self) -> None:
        self._timer = None
        if not self.is_active:
            return
        try:
            self.check_writable()
            self.write(lambda shard, now_ms: shard.tick(now_ms))
        except CoordinatorNotAvailable:
            # What is due is done when it can be written.
            self._timer_at_ms = self.now_ms() + RETRY_DELAY_MS
            self._timer = asyncio.get_running_loop().call_later(RETRY_DELAY_MS / 1000, self._tick)


def as_coordinator_error(error: KafkaError) -> KafkaError:
    """What a client is answered when the log of its coordinator cannot be written (Kafka translates the same way)."""
    match error:
        case StorageError() | NotLeaderOrFollower():
            return NotCoordinator(str(error))
        case NotEnoughReplicas() | NotEnoughReplicasAfterAppend() | UnknownTopicOrPartition() | RequestTimedOut():
            return CoordinatorNotAvailable(str(error))
        case _:
            return UnknownServerError(str(error))


def _send(replies: Replies) -> None:
    for waiter, fields in replies:
        _waiting(waiter).answer(fields)


def _fail(replies: Replies, error: KafkaError) -> None:
    for waiter, _ in replies:
        _waiting(waiter).fail(error)


def _waiting(waiter: Waiter) -> Answerable:
    """Machines give back what they were handed."""
    return cast(Answerable, waiter)
