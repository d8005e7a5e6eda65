"""Topics as tables, without Spark: `read_table` in one thread beside a loop around confluent-kafka's `poll`, on the same topic and broker.

The broker has the other core. Rates are of whole reads, looking up offsets included, the best of a few in a row: the first ones load what
was compiled, and pay for memory that the host of a virtual machine has taken back (1.0 s for the 450 MB of a table here, with any
program). What the loop gives is what people write: a tuple per message, for Avro decoded by fastavro.
"""

import io
from time import monotonic
from typing import Any, Final

import fastavro
from confluent_kafka import TopicPartition

import millstream
from bench.case import Bar, BenchError, Case, Context, Metric, Values
from bench.consume import CONSUME_TIMEOUT_SECONDS, make_consumer
from bench.peers.service import Service
from bench.spark_read import PARTITIONS, RECORDS_PER_BATCH, USER, VALUE_BYTES, fill, fill_with_views
from millstream.tables.query import TopicQuery
from millstream.testing import Broker as InProcessBroker

_WARM_UP_READS: Final = 2
_READS: Final = 3
"""So many in a row, of which the best counts."""
_LOOP_SHARE: Final = 8
"""The loop reads a part of the topic: it is slow enough to be measured so."""


class _TableCase(Case):
    """A topic that is filled once, and reads of it."""

    def __init__(self, count: int) -> None:
        self.count = count // (PARTITIONS * RECORDS_PER_BATCH) * PARTITIONS * RECORDS_PER_BATCH

    def best_rate(self, context: Context, **arguments: Any) -> float:
        """Rows per second of a `read_table` that finds memory."""
        return max(self.table_rate(context, **arguments) for _ in range(_READS))

    def table_rate(self, context: Context, **arguments: Any) -> float:
        """Rows per second of one `read_table`."""
        before = monotonic()
        rows = int(millstream.read_table(self.name, brokers=context.broker.bootstrap_servers, **arguments).num_rows)
        seconds = monotonic() - before
        if rows != self.count:
            raise BenchError(f"read {rows} rows instead of {self.count}")
        return rows / seconds

    def loop_rate(self, context: Context, *, is_avro: bool) -> float:
        """Messages per second of a loop around `poll`."""
        return max(_poll(context.broker, self.name, self.count // _LOOP_SHARE, is_avro=is_avro) for _ in range(_READS))


class TablesRaw(_TableCase):
    """Bytes as they are, with partition, offset and time."""

    name = "tables-raw"
    title = "read_table, raw values of 200 bytes"
    metrics = (
        Metric("one thread", "rows/s", Bar(5_000_000, "at least", "value"), summary="max"),
        Metric("all cores", "rows/s", summary="max"),
        Metric("poll loop", "rows/s", summary="max"),
        Metric("ratio", "x", Bar(10, "at least", "value")),
    )

    def prepare(self, context: Context) -> None:
        value = bytes(VALUE_BYTES)
        fill(context.broker, self.name, self.count, lambda number: value)
        for _ in range(_WARM_UP_READS):
            self.table_rate(context)

    def run(self, context: Context) -> Values:
        own, both = self.best_rate(context, threads=1), self.best_rate(context)
        loop = self.loop_rate(context, is_avro=False)
        return {"one thread": own, "all cores": both, "poll loop": loop, "ratio": own / loop}


class TablesTyped(_TableCase):
    """Avro records as typed columns, and a query over them."""

    name = "tables-typed"
    title = "read_table, Avro of five fields as columns"
    metrics = (
        Metric("one thread", "rows/s", Bar(2_000_000, "at least", "value"), summary="max"),
        Metric("all cores", "rows/s", summary="max"),
        Metric("query", "rows/s", summary="max"),
        Metric("poll loop", "rows/s", summary="max"),
        Metric("ratio", "x", Bar(10, "at least", "value")),
    )
    _registry: InProcessBroker | None = None

    def prepare(self, context: Context) -> None:
        if self._registry is None:
            self._registry = InProcessBroker(registry=True).start()
        fill_with_views(context.broker, self._registry.registry_url, self.name, self.count)
        for _ in range(_WARM_UP_READS):
            self.table_rate(context, **self._typed())
            self._query_rate(context)

    def run(self, context: Context) -> Values:
        own, both = self.best_rate(context, threads=1, **self._typed()), self.best_rate(context, **self._typed())
        loop = self.loop_rate(context, is_avro=True)
        return {"one thread": own, "all cores": both, "query": self._query_rate(context), "poll loop": loop, "ratio": own / loop}

    def _typed(self) -> dict[str, Any]:
        assert self._registry is not None, "it was prepared"
        return {"value_format": "avro", "registry": self._registry.registry_url}

    def _query_rate(self, context: Context) -> float:
        """Rows per second that a question in SQL goes through, with two of the five fields."""
        servers = context.broker.bootstrap_servers
        before = monotonic()
        with TopicQuery(
            f"select count(*), count(distinct user), sum(seconds) from '{self.name}'",
            lambda topic: millstream.scan(topic, brokers=servers, **self._typed()),
            topics=[self.name],
            brokers=servers,
        ) as query:
            [batch] = query.batches()
        if batch.column(0)[0].as_py() != self.count:
            raise BenchError(f"counted {batch.column(0)[0]} rows instead of {self.count}")
        return self.count / (monotonic() - before)


def _poll(service: Service, topic: str, count: int, *, is_avro: bool) -> float:
    consumer = make_consumer(service)
    schema = fastavro.parse_schema(USER)
    try:
        consumer.assign([TopicPartition(topic, partition, 0) for partition in range(PARTITIONS)])
        before = monotonic()
        seen = 0
        while seen < count:
            message = consumer.poll(1)
            if message is None:
                if monotonic() - before > CONSUME_TIMEOUT_SECONDS:
                    raise BenchError(f"only {seen} of {count} messages came within {CONSUME_TIMEOUT_SECONDS:g} s")
                continue
            content: object = message.value()
            if is_avro:
                assert isinstance(content, bytes)
                content = fastavro.schemaless_reader(io.BytesIO(content[5:]), schema, None)
            _row = (message.key(), content, message.partition(), message.offset(), message.timestamp())
            seen += 1
        return count / (monotonic() - before)
    finally:
        consumer.close()
