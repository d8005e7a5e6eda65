"""One partition while it is copied: where the source is read, what is on its way, where the target ends. Pure, and without a clock.

    begun ── fetched ── take ── confirmed          position  >=  taken_to  >=  confirmed_to
      ▲                   │
      └──── begin again ◄─┴── an append failed, or the target ended elsewhere

- `position`: the next offset that is fetched; `taken_to`: the end that the next append expects at the target; `confirmed_to`: what all
  in-sync replicas of the target have. Between them lie batches that wait, and appends that are under way;
- an append names the generation in which it was taken: what is answered to one of a former generation says nothing any more;
- where the target ends is asked at each beginning and never guessed: so there is neither a gap nor a batch twice.

A partition that is stopped stays so; one that failed waits until `retry_at`, a number of the caller's clock.
"""

from collections import deque
from collections.abc import Sequence
from enum import Enum
from typing import Final, NamedTuple

from millstream.mirror.copying.copied_batches import CopiedBatches
from millstream.topic_partition import TopicPartition

MAX_WAITING_BYTES: Final = 4 << 20
"""So much of one partition may wait or be under way before no more is fetched."""
MAX_UNDER_WAY: Final = 4
"""Appends of one partition that are not answered."""
_FIRST_PAUSE_S: Final = 0.1
_LONGEST_PAUSE_S: Final = 10.0


class Phase(Enum):
    """What is done with a partition."""

    STARTING = "starting"
    COPYING = "copying"
    PAUSED = "paused"
    STOPPED = "stopped"


class Append(NamedTuple):
    """Batches that are to be appended where the target ends at `expected_end`."""

    generation: int
    expected_end: int
    batches: CopiedBatches


class PartitionCopy:
    """The state of one partition."""

    __slots__ = (
        "_generation",
        "_held_bytes",
        "_under_way",
        "_waiting",
        "confirmed_epoch",
        "confirmed_to",
        "copied_bytes",
        "copied_offsets",
        "error",
        "failures",
        "is_paused",
        "last_epoch",
        "last_timestamp",
        "name",
        "phase",
        "position",
        "retry_at",
        "skipped_offsets",
        "source_end",
        "source_leader",
        "source_start",
        "taken_to",
        "target_leader",
    )

    def __init__(self, name: TopicPartition) -> None:
        self.name = name
        self.phase = Phase.STARTING
        self.is_paused = False
        self.error: str | None = None
        self.failures = 0
        self.retry_at = 0.0
        self.source_leader = self.target_leader = -1
        self.position = self.taken_to = self.confirmed_to = -1
        self.last_epoch = self.confirmed_epoch = -1
        """Leader epoch, at the source, of the last batch that was fetched, and confirmed."""
        self.source_start = self.source_end = -1
        self.last_timestamp = -1
        self.copied_offsets = self.copied_bytes = self.skipped_offsets = 0
        self._generation = 0
        self._waiting: deque[CopiedBatches] = deque()
        self._under_way: set[int] = set()
        """The expected ends of appends that are not answered."""
        self._held_bytes = 0

    def __repr__(self) -> str:
        return f"PartitionCopy({self.name}, {self.state} at {self.position})"

    # --- what is to be done

    @property
    def state(self) -> str:
        """In one word, for people."""
        return (Phase.PAUSED if self.is_paused and self.phase is not Phase.STOPPED else self.phase).value

    @property
    def held_bytes(self) -> int:
        """Bytes that were fetched and are not confirmed."""
        return self._held_bytes

    @property
    def wants_fetch(self) -> bool:
        """Whether more should be fetched now."""
        return self.phase is Phase.COPYING and not self.is_paused and self.held_bytes < MAX_WAITING_BYTES

    @property
    def has_batches(self) -> bool:
        """Whether an append can be taken."""
        return bool(self._waiting) and len(self._under_way) < MAX_UNDER_WAY

    def fits(self, size: int, batch_count: int) -> bool:
        """Whether what would be taken next has no more bytes, nor batches."""
        return bool(self._waiting) and len(self._waiting[0].records) <= size and self._waiting[0].batch_count <= batch_count

    @property
    def fetched_to(self) -> int:
        """Where the target will end with all that was fetched; before `position` if the source has deleted what is in between."""
        return self._waiting[-1].next_offset if self._waiting else self.taken_to

    @property
    def lag(self) -> int:
        """How many offsets of the source the target does not have; -1 while that is not known."""
        return -1 if min(self.source_end, self.confirmed_to) < 0 else max(self.source_end - self.confirmed_to, 0)

    # --- what happened

    def begin(self, *, target_end: int, source_start: int, source_end: int, last_epoch: int) -> None:
        """The target ends here, and what it has is what the source has: copy what follows."""
        self._forget()
        self.phase, self.error = Phase.COPYING, None
        self.taken_to = self.confirmed_to = self.position = target_end
        self.last_epoch = self.confirmed_epoch = last_epoch
        self.source_start, self.source_end = source_start, source_end
        if source_start > target_end:
            self.skip_to(source_start)

    def skip_to(self, offset: int) -> int:
        """The source has nothing more before `offset`; how many offsets will be missing at the target."""
        missing = offset - self.position
        self.position = offset
        self.last_epoch = -1
        return missing

    def fetched(self, pieces: Sequence[CopiedBatches], *, high_watermark: int, log_start: int) -> None:
        """An answer of the source for `position` has come, with or without batches."""
        self.source_end, self.source_start = high_watermark, log_start
        self.failures, self.error = 0, None
        for batches in pieces:
            self.position, self.last_epoch = batches.next_offset, batches.leader_epoch
            self._waiting.append(batches)
            self._held_bytes += len(batches.records)

    def take(self) -> Append:
        """The next append; it is under way then."""
        batches = self._waiting.popleft()
        append = Append(self._generation, self.taken_to, batches)
        self._under_way.add(append.expected_end)
        self.taken_to = batches.next_offset
        return append

    def is_current(self, append: Append) -> bool:
        """Whether what is answered to the append says something of this copy."""
        return append.generation == self._generation

    def confirmed(self, append: Append) -> None:
        """The target has it."""
        batches = append.batches
        self._under_way.remove(append.expected_end)
        self._held_bytes -= len(batches.records)
        end = append.expected_end
        for first, after in batches.ranges:
            self.skipped_offsets += first - end
            end = after
        self.confirmed_to, self.confirmed_epoch = batches.next_offset, batches.leader_epoch
        self.last_timestamp = batches.max_timestamp
        self.copied_offsets += batches.offset_count
        self.copied_bytes += len(batches.records)
        self.failures = 0

    def failed(self, reason: str, *, now: float) -> None:
        """Something that may pass: begin again after a pause that grows."""
        if self.phase is Phase.STOPPED:
            return
        self._forget()
        self.phase, self.error = Phase.STARTING, reason
        self.retry_at = now + min(_FIRST_PAUSE_S * 2**self.failures, _LONGEST_PAUSE_S)
        self.failures = min(self.failures + 1, 10)

    def stop(self, reason: str) -> None:
        """Something that a person has to look at."""
        self._forget()
        self.phase, self.error = Phase.STOPPED, reason

    def _forget(self) -> None:
        """Nothing that is on its way counts any more."""
        self._generation += 1
        self._waiting.clear()
        self._under_way.clear()
        self._held_bytes = 0
