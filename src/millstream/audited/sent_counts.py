"""What a producer has sent, minus what failed, per topic, bucket and partition: reported when it has been answered, not before.

A producer that is killed takes with it what waits in its queue. So what was sent is `sent`, then, from one look to the next, `waiting`, and
counts when everything that was sent before that look has been answered:

    sent ──► waiting ──► Counter ──► reports
                └─ minus what failed

Failures come one by one, and each is taken off what waits in its bucket, now or later. There is one set of counts each, however long the
brokers are away.

What is sent in a transaction stays `sent` until the transaction has ended (`hold`, `release`): then it waits as everything does, or, if it
was aborted, was never sent.

Most messages have no time of their own, and librdkafka stamps them when they are handed over: they are in the present bucket, if that has
not ended meanwhile. In its last seconds it might, so then messages are to be stamped before.
"""

import threading
from collections import Counter as Numbers
from collections.abc import Callable, Sequence
from time import monotonic, time
from typing import Final, NamedTuple, Protocol, TypeVar

from millstream.audit.reports.report import Kind, Report
from millstream.audited.settings import AuditSettings

_LANE_S: Final = 0.01
"""So long messages without a key go to one partition: what comes together is one batch."""
_MARGIN_MS: Final = 5_000
"""A bucket that lasts longer than this does not end while a batch is handed over, unless the process is stopped meanwhile."""

T = TypeVar("T")
Place = tuple[str, int, int]
"""Topic, number of the bucket, partition."""


class Lane(NamedTuple):
    """Where the messages of a topic go that librdkafka may stamp and that have no key, from `start` up to `until`: times in seconds."""

    place: Place
    start: float
    until: float
    end: float
    """Of the bucket."""
    cells: "dict[Place, _Cell]"
    cell: "_Cell"
    """The one of the place, for as long as `cells` are those that are counted in."""


class _Cell:
    """Messages of one place."""

    __slots__ = ("bytes", "count", "is_doubtful")

    def __init__(self) -> None:
        self.count = self.bytes = 0
        self.is_doubtful = False
        """Whether some of the messages may be in the next bucket."""


class Partitions(Protocol):
    """How the producer chooses partitions."""

    def is_known(self, topic: str) -> bool:
        """Whether it can be said to which partition messages of the topic go, if only that it is any."""

    def for_keyless(self, topic: str) -> int:
        """The partition of messages without a key, for a moment."""


class SentCounts:
    """The counts of one producer; safe for many threads."""

    def __init__(
        self, settings: AuditSettings, partitions: Partitions, *, answered_until: Callable[[], float], announce: Callable[[], None]
    ) -> None:
        """`answered_until` gives a monotonic time: what was sent before it has been answered, and its failures were added."""
        self._settings = settings
        self._bucket_ms = settings.bucket_ms
        self._partitions = partitions
        self._answered_until = answered_until
        self._announce = announce
        self.restart()

    def restart(self) -> None:
        """Begin anew, as another reporter, with nothing counted: this is another process than the one that counted."""
        self._counter = self._settings.counter(Kind.PRODUCER)
        self._lock = threading.Lock()
        self._lanes: dict[str, Lane] = {}
        """Of topics that were used since the last reports."""
        self._sent: dict[Place, _Cell] = {}
        self._waiting: dict[Place, _Cell] = {}
        self._failed: Numbers[Place] = Numbers()
        self._failed_bytes: Numbers[tuple[str, int]] = Numbers()
        """Of topic and bucket: the bytes of messages with keys are not known by partition."""
        self._doubtful: set[str] = set()
        self._is_held = False
        self._looked_at = 0.0
        self._looked_at_ms = self._progress_ms = int(time() * 1000)

    # --- for whoever sends

    def begin(self, topic: str) -> Lane | None:
        """Messages are about to be sent. Where they go if librdkafka stamps them; None if they are to be stamped, because the bucket ends
        soon, or to be sent one by one, because the partitions of the topic are not known."""
        lane = self._lanes.get(topic)
        return lane if lane is not None and lane[1] <= time() < lane[2] else self._open_lane(topic)

    def add(self, place: Place, count: int, size: int) -> None:
        """Messages of one bucket were sent."""
        with self._lock:
            cell = self._cell(place)
            cell.count += count
            cell.bytes += size

    def add_unstamped(self, lane: Lane, count: int, size: int) -> None:
        """Messages were sent that librdkafka stamped, in the bucket of the lane unless it has ended meanwhile."""
        has_ended = time() >= lane[3]
        # Not `acquire` and `release`, which take half the time: an interrupt between them would leave it locked.
        with self._lock:
            cell = lane[5] if lane[4] is self._sent else self._cell(lane[0])
            cell.count += count
            cell.bytes += size
            if has_ended:
                cell.is_doubtful = True

    def add_placed(self, lane: Lane, partitions: Sequence[int], size: int) -> None:
        """The same of messages with keys, to these partitions; all bytes of them count in one."""
        topic, number, _ = lane.place
        has_ended = time() >= lane.end
        with self._lock:
            for partition in set(partitions):
                cell = self._cell((topic, number, partition))
                cell.count += partitions.count(partition)
                cell.bytes += size
                cell.is_doubtful |= has_ended
                size = 0

    def add_failure(self, place: Place, size: int) -> None:
        """A message that was sent, or is about to be added, was not written."""
        with self._lock:
            self._failed[place] += 1
            self._failed_bytes[place[:2]] += size

    def hold(self) -> None:
        """A transaction was begun: what is sent counts when it is committed. What was sent before has been answered."""
        self.settle()
        with self._lock:
            self._is_held = True

    def release(self, *, is_committed: bool) -> None:
        """The transaction has ended, and everything in it was answered."""
        with self._lock:
            self._is_held = False
            if not is_committed:
                self._sent, self._lanes = {}, {}
                self._failed.clear()
                self._failed_bytes.clear()
        self.settle()

    def place(self, topic: str, timestamp_ms: int, partition: int) -> Place:
        """Where a message of this time is counted."""
        return topic, timestamp_ms // self._bucket_ms, partition

    def unstamped_place(self, topic: str, sent_at: float, partition: int) -> Place:
        """The same of a message that librdkafka stamped, at about this time in seconds: never in the last seconds of a bucket."""
        now_ms = int(sent_at * 1000)
        return self.place(topic, now_ms if now_ms < self._margin_ms(now_ms) else self._end_ms(now_ms), partition)

    # --- for the reporter

    def settle(self) -> bool:
        """Count what has been answered; False while something has not."""
        with self._lock:
            if not self._waiting and not self._is_held:
                self._waiting, self._sent = self._sent, {}
                self._looked_at, self._looked_at_ms = monotonic(), int(time() * 1000)
        # Failures that are known now come in by this call.
        answered_until = self._answered_until()
        with self._lock:
            if self._waiting and answered_until < self._looked_at:
                return False
            self._count_waiting()
            self._progress_ms = self._looked_at_ms
            return not any(cell.count for cell in self._sent.values())

    def take(self, now_ms: int, *, is_last: bool) -> Sequence[Report]:
        """The reports of what has been answered. Where a bucket ended while a batch was handed over the report is left out: a report that
        is missing makes its messages unknown, a wrong one would make them lost here and too many there."""
        with self._lock:
            for (topic, _, _), cell in (*self._sent.items(), *self._waiting.items()):
                if cell.count:
                    self._counter.touch(topic)
            reports = self._counter.take(now_ms, progress_ms=self._progress_ms, is_last=is_last)
            doubtful, self._doubtful = self._doubtful, set()
            self._lanes = {}
        return [report for report in reports if report.topic not in doubtful]

    def _open_lane(self, topic: str) -> Lane | None:
        self._use(topic)
        is_known = self._partitions.is_known(topic)
        now = time()
        now_ms = int(now * 1000)
        margin_s = self._margin_ms(now_ms) / 1000
        if not is_known or now >= margin_s:
            return None
        place = self.place(topic, now_ms, self._partitions.for_keyless(topic))
        with self._lock:
            cells, cell = self._sent, self._cell(place)
        lane = self._lanes[topic] = Lane(place, now, min(now + _LANE_S, margin_s), self._end_ms(now_ms) / 1000, cells, cell)
        return lane

    def _use(self, topic: str) -> None:
        with self._lock:
            self._counter.touch(topic)
            is_new = self._counter.says_hello
        if is_new:
            self._announce()

    def _cell(self, place: Place) -> _Cell:
        cell = self._sent.get(place)
        if cell is None:
            cell = self._sent[place] = _Cell()
        return cell

    def _end_ms(self, now_ms: int) -> int:
        return now_ms - now_ms % self._bucket_ms + self._bucket_ms

    def _margin_ms(self, now_ms: int) -> int:
        return self._end_ms(now_ms) - min(_MARGIN_MS, self._bucket_ms // 2)

    def _count_waiting(self) -> None:
        for place, cell in self._waiting.items():
            topic, number, partition = place
            count = cell.count - _take_off(self._failed, place, cell.count)
            size = cell.bytes - _take_off(self._failed_bytes, (topic, number), cell.bytes)
            if cell.is_doubtful:
                self._doubtful.add(topic)
            if count or size:
                self._counter.add_batch(topic, number * self._bucket_ms, count, size, partition=partition)
        self._waiting = {}


def _take_off(failed: Numbers[T], place: T, most: int) -> int:
    """How much of what failed is in this place, at most so much; the rest stays for later."""
    found = min(failed[place], most) if place in failed else 0
    if found:
        failed[place] -= found
        if not failed[place]:
            del failed[place]
    return found
