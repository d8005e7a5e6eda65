"""Threads hand over what they read: everything, in order, never more than a few at once."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager

import pyarrow as pa
import pytest

from millstream.tables.offset_spans import Span
from millstream.tables.parallel_read import read_spans
from millstream.topic_partition import TopicPartition
from tests.waiting import wait_until

SPANS = [Span(TopicPartition("clicks", number), 0, 50) for number in range(6)]


class Reader:
    """Makes a batch per offset, and counts what is open and what was read."""

    def __init__(self, *, fails_at: tuple[int, int] | None = None) -> None:
        self.fails_at = fails_at
        self.opened = 0
        self.is_open = 0
        self.made = 0
        self._lock = threading.Lock()

    @contextmanager
    def open(self) -> Iterator["Reader"]:
        with self._lock:
            self.opened += 1
            self.is_open += 1
        try:
            yield self
        finally:
            with self._lock:
                self.is_open -= 1

    def read(self, span: Span) -> Iterator[pa.RecordBatch]:
        for offset in range(span.start, span.end):
            if (span.place.partition, offset) == self.fails_at:
                raise ValueError("broken")
            with self._lock:
                self.made += 1
            yield pa.record_batch({"offset": [offset]})


@pytest.mark.parametrize(("threads", "opened"), [(1, 1), (3, 3), (50, 6)])
def test_every_span_is_read_whole_and_in_order(threads: int, opened: int) -> None:
    reader = Reader()
    found: dict[int, list[int]] = {}
    for number, batch in read_spans(SPANS, reader.open, threads=threads):
        found.setdefault(number, []).extend(batch.column("offset").to_pylist())
    assert found == {number: list(range(50)) for number in range(6)}
    assert (reader.opened, reader.is_open) == (opened, 0)


def test_no_more_waits_than_there_are_threads() -> None:
    reader = Reader()
    batches = read_spans(SPANS, reader.open, threads=3)
    next(batches)
    # One was taken, three wait, and each thread holds the next one.
    wait_until(lambda: reader.made >= 7, "the threads have gone as far as they may")
    assert reader.made == 7
    assert len(list(batches)) == 299


@pytest.mark.parametrize("threads", [1, 3])
def test_what_ends_one_is_raised_and_ends_all(threads: int) -> None:
    reader = Reader(fails_at=(2, 25))
    with pytest.raises(ValueError, match="broken"):
        list(read_spans(SPANS, reader.open, threads=threads))
    wait_until(lambda: reader.is_open == 0, "all have ended")


@pytest.mark.parametrize("threads", [1, 3])
def test_whoever_stops_ends_all(threads: int) -> None:
    reader = Reader()
    batches = read_spans(SPANS, reader.open, threads=threads)
    next(batches)
    del batches
    wait_until(lambda: reader.is_open == 0, "all have ended")
    assert reader.made < 300


def test_nothing_to_read_is_nothing() -> None:
    assert list(read_spans([], Reader().open, threads=4)) == []
