"""A scan as a dataset of Arrow's, the form in which DuckDB, DataFusion and Polars say which columns and rows a query needs.

Columns that a query does not use are neither taken out of the records nor decoded. Partitions and offsets that its filter excludes are
not fetched. Of times only the lower bound moves the start of a read: all records before the first one of that time are older, but those
after it need not be newer. The filter itself is Arrow's work, on what is left.

Where the topic ends is looked up once: a query that reads a topic twice reads the same rows.
"""

from collections.abc import Iterator, Sequence
from threading import Event, Lock
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds

from millstream.client.codecs.fetch import READ_COMMITTED, READ_UNCOMMITTED
from millstream.tables.filter_bounds import FilterBounds
from millstream.tables.offset_spans import Span
from millstream.tables.topic_scan import TopicScan

_READ_AHEAD: Final = 2
"""Batches that Arrow takes before it is asked for them; 16 of its own accord."""


class TopicDataset(ds.Dataset):  # type: ignore[misc]  # Arrow has no types
    """What engines ask of a dataset: a schema and a scanner. Of what else a dataset can do nothing works, because it has no files."""

    def __init__(self, scan: TopicScan) -> None:
        self._scan = scan
        self._reads: list[Event] = []
        self._finding = Lock()
        self._spans: list[Span] | None = None
        self.failure: Exception | None = None
        """What ended a read: an engine hands on no more than its text."""

    @property
    def schema(self) -> pa.Schema:
        """Every column, headers too."""
        return self._scan.all_columns.schema

    def scanner(self, columns: Sequence[str] | None = None, filter: pc.Expression | None = None, **_: Any) -> ds.Scanner:  # noqa: A002 -- Arrow's name
        """What reads these columns of the rows that match."""
        bounds = None if filter is None else FilterBounds(self.schema, filter)
        wanted = set(self.schema.names if columns is None else columns) | set(() if bounds is None else bounds.columns())
        # A batch without columns has no length.
        narrow = self._scan.with_columns([name for name in self.schema.names if name in wanted] or ["offset"])
        batches = self._batches(narrow, bounds)
        reader = pa.RecordBatchReader.from_batches(narrow.schema, batches)
        names = self.schema.names if columns is None else list(columns)
        return ds.Scanner.from_batches(reader, columns=names, filter=filter, batch_readahead=_READ_AHEAD)

    def close(self) -> None:
        """End the reads that an engine has begun and holds on to, as one does that has found its `limit`."""
        for ended in self._reads:
            ended.set()

    def _batches(self, scan: TopicScan, bounds: FilterBounds | None) -> Iterator[pa.RecordBatch]:
        ended = Event()
        self._reads.append(ended)
        try:
            spans = self._find_spans() if bounds is None else self._narrowed(bounds)
            yield from scan.batches(spans=spans, ended=ended)
        except Exception as error:
            self.failure = self.failure or error
            raise

    def _find_spans(self) -> list[Span]:
        """The same for all reads of a query, which begin in threads of the engine's."""
        with self._finding:
            if self._spans is None:
                self._spans = self._scan.find_spans()
            return self._spans

    def _narrowed(self, bounds: FilterBounds) -> list[Span]:
        """The spans that may have rows that match."""
        found = self._find_spans()
        partitions = bounds.partitions(span.place.partition for span in found)
        spans = [span for span in found if span.place.partition in partitions and span.start < span.end]
        if not spans:
            return []
        low, high = bounds.offsets(min(span.start for span in spans), max(span.end for span in spans))
        spans = [Span(span.place, max(span.start, low), min(span.end, high)) for span in spans]
        spans = [span for span in spans if span.start < span.end]
        earliest_ms = bounds.earliest_ms()
        return self._not_before(spans, earliest_ms) if spans and earliest_ms else spans

    def _not_before(self, spans: Sequence[Span], earliest_ms: int) -> list[Span]:
        options = self._scan.options
        isolation = READ_COMMITTED if options.read_committed else READ_UNCOMMITTED
        with options.open_cluster() as cluster:
            found = cluster.offsets({span.place: earliest_ms for span in spans}, isolation_level=isolation)
        offsets = {place: at.offset for place, at in found.items() if at.offset >= 0}
        return [Span(span.place, max(span.start, offsets[span.place]), span.end) for span in spans if span.place in offsets]
