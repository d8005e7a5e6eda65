"""Several spans read at once, by threads that hand their batches to whoever takes them. What is compiled and what waits for brokers leaves
the interpreter free, so threads share the cores.

No more batches wait than there are threads, so memory stays bounded however slowly they are taken. An error of a thread is raised where
the batches are taken, and ends the others; so does whoever closes the iterator, or sets `ended` where an engine holds on to it. The rows of
a partition stay in order; between partitions there is none.
"""

import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager
from typing import Final, Generic, Protocol, TypeVar

import pyarrow as pa

from millstream.tables.offset_spans import Span

T = TypeVar("T")

_LONGEST_END_S: Final = 1.0
_LOOK_S: Final = 0.2
"""How often a thread that waits for room looks whether all has ended."""


class Worker(Protocol):
    """Reads spans, in one thread."""

    def read(self, span: Span) -> Iterable[pa.RecordBatch]:
        """The rows of a span, in order."""


OpenWorker = Callable[[], AbstractContextManager[Worker]]
NumberedBatch = tuple[int, pa.RecordBatch]
"""The number of its span, and some of its rows."""


def read_spans(
    spans: Sequence[Span], open_worker: OpenWorker, *, threads: int, ended: threading.Event | None = None
) -> Iterator[NumberedBatch]:
    """All rows of the spans, unless that is ended."""
    waiting = deque(enumerate(spans))
    if min(threads, len(spans)) > 1:
        yield from _read_in_threads(waiting, open_worker, threads=min(threads, len(spans)), ended=ended or threading.Event())
        return
    with open_worker() as worker:
        for number, span in waiting:
            for batch in worker.read(span):
                yield number, batch


def _read_in_threads(
    waiting: "deque[tuple[int, Span]]", open_worker: OpenWorker, *, threads: int, ended: threading.Event
) -> Iterator[NumberedBatch]:
    hand_over: _HandOver[NumberedBatch] = _HandOver(givers=threads, most=threads, ended=ended)
    started = [
        threading.Thread(target=_work, args=(waiting, open_worker, hand_over), name=f"millstream-scan-{number}", daemon=True)
        for number in range(threads)
    ]
    try:
        for thread in started:
            thread.start()
        while (taken := hand_over.take()) is not None:
            yield taken
    finally:
        hand_over.end()
        for thread in started:
            thread.join(_LONGEST_END_S)


def _work(waiting: "deque[tuple[int, Span]]", open_worker: OpenWorker, hand_over: "_HandOver[NumberedBatch]") -> None:
    try:
        with open_worker() as worker:
            while not hand_over.ended.is_set():
                try:
                    number, span = waiting.popleft()
                except IndexError:
                    break
                for batch in worker.read(span):
                    if not hand_over.give((number, batch)):
                        break
        hand_over.finish()
    except BaseException as error:  # noqa: BLE001 -- whatever ends a thread is raised where its batches are awaited
        hand_over.fail(error)


class _HandOver(Generic[T]):
    """A queue that is short, ends when all givers have finished or one has failed, and can be ended by the taker."""

    def __init__(self, *, givers: int, most: int, ended: threading.Event) -> None:
        self._changed = threading.Condition()
        self._things: deque[T] = deque()
        self._givers = givers
        self._most = most
        self._error: BaseException | None = None
        self.ended = ended

    def give(self, thing: T) -> bool:
        """Wait for room; False if nothing is taken any more."""
        with self._changed:
            while len(self._things) >= self._most and not self.ended.is_set():
                self._changed.wait(_LOOK_S)
            if self.ended.is_set():
                return False
            self._things.append(thing)
            self._changed.notify_all()
            return True

    def take(self) -> T | None:
        """The next one; None at the end. Raises what ended a giver."""
        with self._changed:
            self._changed.wait_for(lambda: self._things or self._error is not None or not self._givers)
            if self._error is not None:
                raise self._error
            if not self._things:
                return None
            thing = self._things.popleft()
            self._changed.notify_all()
            return thing

    def finish(self) -> None:
        """One giver has nothing more."""
        with self._changed:
            self._givers -= 1
            self._changed.notify_all()

    def fail(self, error: BaseException) -> None:
        """One giver ended with an error."""
        with self._changed:
            self._error = self._error or error
            self.ended.set()
            self._changed.notify_all()

    def end(self) -> None:
        """Nothing more is taken."""
        with self._changed:
            self.ended.set()
            self._things.clear()
            self._changed.notify_all()
