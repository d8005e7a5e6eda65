"""A topic as a table: `read_table` for all of it in memory, `scan` for a stream of batches that other libraries take without a copy.

    views = millstream.read_table("page-views", brokers="127.0.0.1:9092", start=timedelta(hours=1), value_format="string")
    views.to_pandas()

    views = millstream.scan("page-views", value_format="avro", registry="http://127.0.0.1:8081")
    duckdb.sql("select page, count(*) from views group by page")
    polars.DataFrame(views)

Nothing is asked before the first rows or the schema are wanted. A scan can be read any number of times, each time anew: up to the end that
the topic has then. Nothing is committed and no group is joined. Arrow is imported when a scan is made: `import millstream` stays light.
"""

import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from importlib.util import find_spec
from typing import TYPE_CHECKING, Final, TypedDict, Unpack

from millstream.arrow.columns import Mode
from millstream.errors import UsageError
from millstream.tables.position import Position
from millstream.tables.scan_options import DEFAULT_BROKERS, FieldFormat, FieldOptions, ScanOptions, make_options

if TYPE_CHECKING:
    from threading import Event

    import pyarrow as pa

    from millstream.tables.offset_spans import Span
    from millstream.tables.table_columns import TableColumns

NEEDED: Final = ("numpy", "pyarrow")


def scan(
    topic: str,
    *,
    brokers: str | Iterable[str] = DEFAULT_BROKERS,
    start: Position = "earliest",
    end: Position = "latest",
    partitions: Iterable[int] | None = None,
    columns: Sequence[str] | None = None,
    key_format: FieldFormat = "binary",
    value_format: FieldFormat = "binary",
    key_schema: "str | Mapping[str, str] | pa.Schema | None" = None,
    value_schema: "str | Mapping[str, str] | pa.Schema | None" = None,
    key_subject: str | None = None,
    value_subject: str | None = None,
    registry: str | Sequence[str] | None = None,
    mode: Mode = "FAILFAST",
    flatten: bool = True,
    fail_on_data_loss: bool = True,
    threads: int | None = None,
    follow: bool = False,
    options: Mapping[str, str] | None = None,
) -> "TopicScan":
    """A topic from `start` up to but not including `end`, as something that reads like an Arrow stream.

    `start` and `end` are offsets, times or edges (`tables.position`). Formats are binary, string, json and avro, or auto for a guess;
    `value_schema` has the columns of JSON, or an Avro schema to read with instead of the subject's latest in the `registry`. `mode` says
    what becomes of malformed messages, as in the Spark source. A record's fields are columns, unless `flatten` is false. `threads` read
    partitions in parallel, as many as there are cores unless said otherwise. With `follow` the stream has no end. `options` are Kafka's:
    TLS and logins, `isolation.level`, `client.id`, `max.partition.fetch.bytes`, `request.timeout.ms`, `poll.timeout.ms`, `check.crcs`.
    """
    require_arrow()
    return TopicScan(
        make_options(
            topic,
            brokers=brokers,
            start=start,
            end=end,
            partitions=partitions,
            columns=columns,
            key=FieldOptions(key_format, key_schema, key_subject),
            value=FieldOptions(value_format, value_schema, value_subject),
            registry=registry,
            mode=mode,
            flatten=flatten,
            fail_on_data_loss=fail_on_data_loss,
            threads=threads,
            follow=follow,
            options=options,
        )
    )


class ScanArguments(TypedDict, total=False):
    """The arguments of `scan` but for the topic, for whoever hands them on."""

    brokers: str | Iterable[str]
    start: Position
    end: Position
    partitions: Iterable[int] | None
    columns: Sequence[str] | None
    key_format: FieldFormat
    value_format: FieldFormat
    key_schema: "str | Mapping[str, str] | pa.Schema | None"
    value_schema: "str | Mapping[str, str] | pa.Schema | None"
    key_subject: str | None
    value_subject: str | None
    registry: str | Sequence[str] | None
    mode: Mode
    flatten: bool
    fail_on_data_loss: bool
    threads: int | None
    follow: bool
    options: Mapping[str, str] | None


def read_table(topic: str, **arguments: Unpack[ScanArguments]) -> "pa.Table":
    """A topic as a pyarrow Table, partition by partition and in the order of offsets; the arguments are those of `scan`."""
    return scan(topic, **arguments).to_table()


class TopicScan:
    """A part of a topic, read anew each time. `duckdb.sql("... from name")`, `polars.DataFrame(...)`, `pyarrow.table(...)` and whatever
    else knows the Arrow PyCapsule interface take it as it is."""

    def __init__(self, options: ScanOptions) -> None:
        self.options = options

    def __repr__(self) -> str:
        return f"<TopicScan of {self.options.topic!r} at {self.options.brokers}>"

    def __iter__(self) -> "Iterator[pa.RecordBatch]":
        return self.batches()

    def __arrow_c_schema__(self) -> object:
        return self.schema.__arrow_c_schema__()

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        return self.to_reader().__arrow_c_stream__(requested_schema)

    @property
    def schema(self) -> "pa.Schema":
        """What the rows look like: the same for every read of this scan."""
        return self.chosen_columns.schema

    @cached_property
    def all_columns(self) -> "TableColumns":
        """Every column that could be chosen; found out once, at the registry or by a look at some messages."""
        from millstream.tables.field_plan import plan_field
        from millstream.tables.sample import sample_of
        from millstream.tables.table_columns import all_columns

        sample = sample_of(self.options)
        key, value = plan_field("key", self.options, sample), plan_field("value", self.options, sample)
        return all_columns(key, value, mode=self.options.mode, flatten=self.options.flatten)

    @cached_property
    def chosen_columns(self) -> "TableColumns":
        """The columns of the rows."""
        names = self.options.columns
        return self.all_columns.without_headers() if names is None else self.all_columns.select(names)

    def with_columns(self, names: Sequence[str]) -> "TopicScan":
        """The same rows with other columns; what was found out about the topic is kept."""
        other = TopicScan(replace(self.options, columns=tuple(names)))
        other.__dict__["all_columns"] = self.all_columns
        return other

    def to_reader(self) -> "pa.RecordBatchReader":
        """A stream of batches that can be read once; memory is bounded however long the topic is."""
        import pyarrow as pa

        return pa.RecordBatchReader.from_batches(self.schema, self.batches())

    def to_table(self) -> "pa.Table":
        """All rows in memory."""
        import pyarrow as pa

        if self.options.follow:
            raise UsageError("a scan with follow=True has no end, and no table holds it; take its batches one by one, from to_reader()")
        numbered = sorted(self._numbered_batches(self.find_spans()), key=lambda pair: pair[0])  # a stable sort: offsets stay in order
        return pa.Table.from_batches([batch for _, batch in numbered], schema=self.schema)

    def batches(self, *, spans: "Sequence[Span] | None" = None, ended: "Event | None" = None) -> "Iterator[pa.RecordBatch]":
        """The rows as they come. Where they begin and end is looked up now, unless the spans are known already. `ended` stops the threads
        of a read that is left alone without being closed."""
        found = self.find_spans() if spans is None else spans
        if self.options.follow:
            from millstream.tables.follower import follow

            return follow(self.options, self.chosen_columns, {span.place: span.start for span in found})
        return (batch for _, batch in self._numbered_batches(found, ended))

    def find_spans(self) -> "list[Span]":
        """The offsets that a read would read now."""
        from millstream.tables.offset_spans import find_spans

        with self.options.open_cluster() as cluster:
            return find_spans(cluster, self.options)

    def _numbered_batches(self, spans: "Sequence[Span]", ended: "Event | None" = None) -> "Iterator[tuple[int, pa.RecordBatch]]":
        from millstream.tables.parallel_read import read_spans
        from millstream.tables.span_worker import SpanWorker

        columns = self.chosen_columns
        filled = [span for span in spans if span.start < span.end]
        threads = self.options.threads or len(os.sched_getaffinity(0))
        return read_spans(filled, lambda: SpanWorker(self.options, columns), threads=threads, ended=ended)


def require_arrow() -> None:
    """Say what to install where Arrow is missing."""
    require(NEEDED, "reading topics as tables", "arrow")


def require(packages: Iterable[str], what: str, extra: str) -> None:
    """Say which of these packages `what` lacks here, and the extra that brings them."""
    missing = [name for name in packages if find_spec(name) is None]
    if missing:
        *others, last = missing
        names = f"{', '.join(others)} and {last}" if others else last
        raise UsageError(f"{what} needs {names}: pip install '.[{extra}]' in a checkout of Millstream")
