"""One partition of `__consumer_offsets` and the coordinator of the groups in it: the shell around a pure machine.

A shard is loading, active or out of use. Loading: its log is being replayed, everything is answered with COORDINATOR_LOAD_IN_PROGRESS.
Active: commands go to the machine, what it decides is appended as one batch, and the answers leave when the log is committed that far; so
do answers and reads without records of their own, because they may rest on records that are not committed yet (Kafka does the same).
Out of use: a disk failed or the partition went elsewhere.

In a rebalance of the new protocol every member leaves a record. Those that are decided in one turn of the event loop are collected and
appended together, as Kafka does it; their answers wait for that, and so does whatever is decided after them.

The machine has taken its records as written when it hands them out. So if an append fails the machine knows more than the log: the shard
gives it up, tells everybody who waits to look for the coordinator again, and is loaded anew (`Groups` decides when).

One timer per shard, for the machine's earliest deadline; no task.
"""

import asyncio
import logging
from collections.abc import Callable, Collection
from functools import partial
from typing import Final, cast

from millstream.broker.coordinators.group_reply import Answerable
from millstream.broker.network.api import Fields
from millstream.clock import Clock
from millstream.cluster.partition import ACKS_ALL, Partition
from millstream.errors import (
    CoordinatorLoadInProgress,
    CoordinatorNotAvailable,
    KafkaError,
    MessageTooLarge,
    NotCoordinator,
    NotEnoughReplicas,
    NotLeaderOrFollower,
    RecordListTooLarge,
    RequestTimedOut,
    StorageError,
    UnknownServerError,
    UnknownTopicOrPartition,
)
from millstream.groups.commands import ConsumerHeartbeat, GroupCommand
from millstream.groups.coordinator import GroupCoordinator
from millstream.groups.offsets.repeated_commit import RepeatedCommit
from millstream.groups.outcome import GroupRecord, Outcome, Waiter
from millstream.groups.topic_image import TopicImage
from millstream.wire.compression import Codec
from millstream.wire.records import batch_of, encode_key_values

logger = logging.getLogger(__name__)

PRODUCE_VERSION: Final = 13
SMALLEST_DELAY_MS: Final = 1

Replies = list[tuple[Waiter, dict[str, object]]]
GiveUp = Callable[["GroupShard", KafkaError], None]


class GroupShard:
    """The groups whose records are in one partition."""

    def __init__(self, partition: Partition, *, clock: Clock, codec: Codec, on_give_up: GiveUp) -> None:
        self.partition = partition
        self.is_in_use = True
        """Whether it is loading or active."""
        self._coordinator: GroupCoordinator | None = None
        self._clock = clock
        self._codec = codec
        self._on_give_up = on_give_up
        self._written = 0
        self._collected: Outcome | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._timer_at_ms = 0
        # Deadlines must not jump when somebody sets the clock of the machine: time goes on from here at its own pace.
        self._ahead_ms = clock.now_ms() - clock.monotonic_ms()

    def __repr__(self) -> str:
        return f"GroupShard({self.partition.topic}-{self.partition.index})"

    @property
    def coordinator(self) -> GroupCoordinator:
        """The machine, to read from; raises what clients are told while there is none."""
        if self._coordinator is not None:
            return self._coordinator
        if self.is_in_use:
            raise CoordinatorLoadInProgress("the groups are being read from the log; try again")
        raise NotCoordinator("the log of these groups cannot be used here")

    @property
    def is_active(self) -> bool:
        """Whether commands are taken."""
        return self._coordinator is not None

    @property
    def has_records(self) -> bool:
        """Whether there is something to replay."""
        log = self.partition.log
        return log.log_start_offset < log.log_end_offset

    def handle(self, command: GroupCommand, reply: Answerable) -> None:
        """Let the machine decide a command; the reply is answered now or later."""
        coordinator = self.coordinator
        try:
            outcome = coordinator.handle(command, reply, now_ms=self.now_ms())
        except Exception:
            # A mistake of ours, and nobody knows how much of it was done: what the log says holds.
            self.give_up(UnknownServerError("the coordinator failed"))
            raise
        if type(command) is ConsumerHeartbeat and (outcome.records or self._collected is not None):
            self._collect(outcome)
        else:
            self._settle(outcome)

    def commit_again(self, commit: RepeatedCommit, offsets: tuple[int, ...], leader_epochs: tuple[int, ...]) -> bool:
        """Commit what was committed before with other numbers; True when that is done and may be answered at once.

        False if it has to come as a command: nothing was done, or the machine is given up and says so.
        """
        self.settle_collected()
        coordinator = self._coordinator
        if coordinator is None or not self.partition.commits_at_once(commit.count):
            return False
        try:
            records = coordinator.commit_again(commit, offsets, leader_epochs, now_ms=self.now_ms())
            if records is None:
                return False
            now_ms = self._clock.now_ms()
            batch = batch_of(records, count=commit.count, timestamp=now_ms, codec=self._codec)
            self._written = self._append_batch(batch, now_ms=now_ms)
        except KafkaError as error:
            self.give_up(error)
            return False
        except Exception:
            # As in `handle`: what the log says holds.
            self.give_up(UnknownServerError("the coordinator failed"))
            raise
        return True

    def answer_when_committed(self, reply: Answerable, fields: Fields) -> None:
        """Answer a read, as soon as nothing it may have seen can be lost."""
        outcome = Outcome()
        outcome.reply(reply, dict(fields))
        if self._collected is not None:
            self._collect(outcome)
        else:
            self._answer(outcome.replies)

    def topics_changed(self, image: TopicImage, *, changed: Collection[str] | None = None) -> None:
        """Tell the groups which topics there are, and which of them may be others than the last time."""
        if self._coordinator is not None:
            self._settle(self._coordinator.topics_changed(image, now_ms=self.now_ms(), changed=changed))

    def begin_loading(self) -> None:
        """The log is about to be replayed."""
        self.is_in_use = True

    def activate(self, coordinator: GroupCoordinator, image: TopicImage) -> None:
        """The log has been replayed into `coordinator`: take commands from now on."""
        self._coordinator = coordinator
        self._written = self.partition.log.log_end_offset
        self._settle(coordinator.loaded(now_ms=self.now_ms()))
        self.topics_changed(image)

    def give_up(self, error: KafkaError) -> None:
        """Forget the machine and tell who waits for it; what the log holds stays."""
        collected = self._collected
        self.close()
        coordinator, self._coordinator = self._coordinator, None
        self.is_in_use = False
        if collected is not None:
            _fail(collected.replies, NotCoordinator(str(error)))
        if coordinator is not None:
            logger.error("%s-%d: the coordinator of its groups stops: %s", self.partition.topic, self.partition.index, error)
            _send(coordinator.unloaded().replies)
        self._on_give_up(self, error)

    def close(self) -> None:
        """The broker stops, or the machine is given up: nothing is due any more, and nothing is written that was not answered."""
        self._collected = None
        self._cancel_timer()

    def _cancel_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def now_ms(self) -> int:
        """Milliseconds since 1970 as the machine counts them."""
        return self._ahead_ms + self._clock.monotonic_ms()

    def _collect(self, outcome: Outcome) -> None:
        """Settle this at the end of the loop's turn, with all else that is decided until then."""
        if self._collected is None:
            self._collected = outcome
            asyncio.get_running_loop().call_soon(self.settle_collected)
        else:
            self._collected.merge(outcome)

    def settle_collected(self) -> None:
        """Write what heartbeats of this turn decided now: somebody is about to read what the machine knows."""
        if self._collected is not None:
            self._settle(Outcome())

    def _settle(self, outcome: Outcome) -> None:
        """Write what was decided, send the answers that may go, and see to what is due next."""
        if self._collected is not None:
            collected, self._collected = self._collected, None
            collected.merge(outcome)
            outcome = collected
        if outcome.records:
            try:
                self._written = self._append(outcome.records)
            except KafkaError as error:
                _fail(outcome.replies, as_coordinator_error(error))
                self.give_up(error)
                return
            except Exception:
                # As in `handle`: what the log says holds.
                failure = UnknownServerError("the coordinator failed")
                _fail(outcome.replies, NotCoordinator(str(failure)))
                self.give_up(failure)
                raise
        if outcome.replies:
            self._answer(outcome.replies)
        self._schedule()

    def _append(self, records: list[GroupRecord]) -> int:
        """Append the records as one batch, or as several if they are very many; the offset after it."""
        now_ms = self._clock.now_ms()
        batch = encode_key_values(records, timestamp=now_ms, codec=self._codec)
        limit = self.partition.log.config.max_message_bytes
        if len(batch) > limit:
            # Subscriptions of many members repeat each other. What is one record and still too large is written as it is.
            batch = encode_key_values(records, timestamp=now_ms, codec=Codec.ZSTD)
            if len(batch) > limit and len(records) > 1:
                return self._append_halves(records)
        try:
            return self._append_batch(batch, now_ms=now_ms)
        except (MessageTooLarge, RecordListTooLarge):
            # Segments of the topic may be small, and its `compression.type` may undo ours. Nothing was written.
            if len(records) == 1:
                raise
            return self._append_halves(records)

    def _append_halves(self, records: list[GroupRecord]) -> int:
        half = len(records) // 2
        self._append(records[:half])
        return self._append(records[half:])

    def _append_batch(self, batch: bytes, *, now_ms: int) -> int:
        result = self.partition.append_as_leader(batch, acks=ACKS_ALL, now_ms=now_ms, produce_version=PRODUCE_VERSION, is_own=True)
        return result.last_offset + 1

    def _answer(self, replies: Replies) -> None:
        watermark = self.partition.high_watermark
        if watermark.value >= self._written:
            _send(replies)
        else:
            watermark.wait_for(self._written, partial(self._committed, replies), token=object())

    def _committed(self, replies: Replies, error: KafkaError | None) -> None:
        if error is None:
            _send(replies)
            return
        _fail(replies, as_coordinator_error(error))
        if self._coordinator is not None:
            self.give_up(error)

    def _schedule(self) -> None:
        coordinator = self._coordinator
        deadline_ms = None if coordinator is None else coordinator.next_deadline_ms()
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

    def _tick(self) -> None:
        self._timer = None
        coordinator = self._coordinator
        if coordinator is None:
            return
        try:
            outcome = coordinator.tick(self.now_ms())
        except Exception:
            logger.exception("%s-%d: the coordinator failed", self.partition.topic, self.partition.index)
            self.give_up(UnknownServerError("the coordinator failed"))
            return
        self._settle(outcome)


def as_coordinator_error(error: KafkaError) -> KafkaError:
    """What a client of a group is told when the log of the group cannot be written (Kafka translates the same way)."""
    match error:
        case StorageError() | NotLeaderOrFollower():
            return NotCoordinator(str(error))
        case NotEnoughReplicas() | UnknownTopicOrPartition() | RequestTimedOut():
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
