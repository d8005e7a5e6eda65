"""What a producer has sent, minus what failed, per topic and bucket: reported when it has been answered, not before.

A producer that is killed takes with it what waits in its queue. So what was sent is `sent`, then, from one look to the next, `waiting`, and
counts when everything that was sent before that look has been answered:

    sent ──► waiting ──► Counter ──► reports
                └─ minus what failed

Failures come one by one, and each is taken off what waits in its bucket, now or later. There is one set of counts each, however long the
brokers are away.

Most messages have no time of their own, and librdkafka stamps them when they are handed over: they are in the present bucket, if that has
not ended meanwhile. In its last seconds it might, so then messages are to be stamped before.
"""

import threading
from collections.abc import Callable, Sequence
from time import monotonic, time
from typing import Final, NamedTuple

from millstream.audit.counter import Counter
from millstream.audit.report import Kind, Report
from millstream.audited.settings import AuditSettings

_MARGIN_MS: Final = 5_000
"""A bucket that lasts longer than this does not end while a batch is handed over, unless the process is stopped meanwhile."""


class Window(NamedTuple):
    """A bucket, in seconds; from `margin` on it ends soon."""

    number: int
    start: float
    margin: float
    end: float


class _Cell:
    """Messages of one topic and bucket."""

    __slots__ = ("bytes", "count", "is_doubtful")

    def __init__(self) -> None:
        self.count = self.bytes = 0
        self.is_doubtful = False
        """Whether some of the messages may be in the next bucket."""


Cells = dict[tuple[str, int], _Cell]
"""By topic and number of bucket."""


class SentCounts:
    """The counts of one producer; safe for many threads."""

    def __init__(self, settings: AuditSettings, *, answered_until: Callable[[], float], announce: Callable[[], None]) -> None:
        """`answered_until` gives a monotonic time: what was sent before it has been answered, and its failures were added."""
        self._bucket_ms = settings.bucket_ms
        self._counter = Counter(settings.origin(Kind.PRODUCER, ""), bucket_ms=settings.bucket_ms, interval_ms=settings.interval_ms)
        self._answered_until = answered_until
        self._announce = announce
        self._lock = threading.Lock()
        self._used: set[str] = set()
        """Topics that were used since the last reports."""
        self._window = self._window_at(int(time() * 1000))
        self._sent: Cells = {}
        self._waiting: Cells = {}
        self._failed: Cells = {}
        self._doubtful: set[str] = set()
        self._looked_at = 0.0
        self._looked_at_ms = self._progress_ms = int(time() * 1000)

    # --- for whoever sends

    def begin(self, topic: str) -> Window | None:
        """Messages are about to be sent. The bucket in which librdkafka may stamp them; None if it ends soon: stamp them yourself."""
        if topic not in self._used:
            self._use(topic)
        window, now = self._window, time()
        if not window[1] <= now < window[3]:
            window = self._window = self._window_at(int(now * 1000))
        return window if now < window[2] else None

    def add(self, topic: str, timestamp_ms: int, count: int, size: int) -> None:
        """Messages of one bucket were sent."""
        with self._lock:
            cell = self._cell((topic, timestamp_ms // self._bucket_ms))
            cell.count += count
            cell.bytes += size

    def add_unstamped(self, topic: str, window: Window, count: int, size: int) -> None:
        """Messages were sent that librdkafka stamped, in this bucket unless it has ended meanwhile."""
        place = topic, window[0]
        has_ended = time() >= window[3]
        # Half the time of a `with`, and this is the hot path; nothing between the two calls can fail.
        self._lock.acquire()
        cell = self._sent.get(place) or self._cell(place)
        cell.count += count
        cell.bytes += size
        if has_ended:
            cell.is_doubtful = True
        self._lock.release()

    def add_failure(self, topic: str, timestamp_ms: int, size: int) -> None:
        """A message that was sent, or is about to be added, was not written."""
        with self._lock:
            cell = self._failed.setdefault((topic, timestamp_ms // self._bucket_ms), _Cell())
            cell.count += 1
            cell.bytes += size

    def add_unstamped_failure(self, topic: str, sent_at: float, size: int) -> None:
        """The same of a message that librdkafka stamped, at about this time in seconds: never in the last seconds of a bucket."""
        window = self._window_at(int(sent_at * 1000))
        self.add_failure(topic, int((sent_at if sent_at < window.margin else window.end) * 1000), size)

    # --- for the reporter

    def settle(self) -> bool:
        """Count what has been answered; False while something has not."""
        with self._lock:
            if not self._waiting:
                self._waiting, self._sent = self._sent, {}
                self._looked_at, self._looked_at_ms = monotonic(), int(time() * 1000)
        # Failures that are known now come in by this call.
        answered_until = self._answered_until()
        with self._lock:
            if self._waiting and answered_until < self._looked_at:
                return False
            self._count_waiting()
            self._progress_ms = self._looked_at_ms
            return not self._sent

    def take(self, now_ms: int, *, is_last: bool) -> Sequence[Report]:
        """The reports of what has been answered. Where a bucket ended while a batch was handed over the report is left out: a report that
        is missing makes its messages unknown, a wrong one would make them lost here and too many there."""
        with self._lock:
            for topic, _ in (*self._sent, *self._waiting):
                self._counter.touch(topic)
            reports = self._counter.take(now_ms, progress_ms=self._progress_ms, is_last=is_last)
            doubtful, self._doubtful = self._doubtful, set()
            self._used = set()
        return [report for report in reports if report.topic not in doubtful]

    def _use(self, topic: str) -> None:
        with self._lock:
            self._used.add(topic)
            self._counter.touch(topic)
            is_new = self._counter.says_hello
        if is_new:
            self._announce()

    def _cell(self, place: tuple[str, int]) -> _Cell:
        cell = self._sent.get(place)
        if cell is None:
            cell = self._sent[place] = _Cell()
        return cell

    def _window_at(self, now_ms: int) -> Window:
        start_ms = now_ms - now_ms % self._bucket_ms
        end_ms = start_ms + self._bucket_ms
        margin_ms = end_ms - min(_MARGIN_MS, self._bucket_ms // 2)
        return Window(now_ms // self._bucket_ms, start_ms / 1000, margin_ms / 1000, end_ms / 1000)

    def _count_waiting(self) -> None:
        for (topic, number), cell in self._waiting.items():
            failed = self._failed.get((topic, number), _NONE)
            count, size = min(cell.count, failed.count), min(cell.bytes, failed.bytes)
            failed.count -= count
            failed.bytes -= size
            if cell.is_doubtful:
                self._doubtful.add(topic)
            if cell.count > count:
                self._counter.add_batch(topic, number * self._bucket_ms, cell.count - count, cell.bytes - size)
        self._waiting = {}
        self._failed = {place: cell for place, cell in self._failed.items() if cell.count or cell.bytes}


_NONE: Final = _Cell()
