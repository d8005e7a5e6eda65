"""Rows of Spark as keys, values and headers in bytes, topic by topic: what a task writes, and what a digest is made of.

Nothing here makes a Python object for a row. An error about a row names its column.
"""

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql.pandas.types import to_arrow_type
from pyspark.sql.types import DataType, StructType

from millstream.arrow.binary_columns import HeaderColumn, Offsets, Rows, header_column, no_headers
from millstream.arrow.columns import FieldColumns
from millstream.arrow.field_encoding import FieldEncoder, Registration, field_encoder
from millstream.client.errors import DeliveryFailed
from millstream.spark.sink.partitioner import NO_PARTITION
from millstream.spark.sink.write_plan import WritePlan


class TopicRows(NamedTuple):
    """Rows that go to one topic; `wanted` are the partitions that they ask for, if there is a column of them."""

    topic: str
    rows: Rows
    wanted: Offsets | None
    batch: pa.RecordBatch


class RowEncoder:
    """Encodes the rows of one task."""

    def __init__(self, plan: WritePlan) -> None:
        self._plan = plan
        self._encoders: dict[str, FieldEncoder] = {}

    def encode(self, batch: pa.RecordBatch) -> Iterator[TopicRows]:
        """The rows of a batch, topic by topic; no topic without rows."""
        if not batch.num_rows:
            return
        if self._plan.topic is not None:
            yield self._encode_topic(self._plan.topic, batch)
            return
        assert self._plan.topic_column is not None
        topics = batch.column(self._plan.topic_column)
        if topics.null_count:
            raise DeliveryFailed("a row has no topic: its column `topic` is null. Fill it, or set the option topic for all rows")
        names = pc.unique(topics).to_pylist()
        for name in names:
            # The key and value of a topic may have schemas of their own, so its rows are encoded by themselves.
            yield self._encode_topic(name, batch if len(names) == 1 else batch.filter(pc.equal(topics, name)))

    def _encode_topic(self, topic: str, batch: pa.RecordBatch) -> TopicRows:
        headers = self._headers(batch)
        columns = []
        for name, field in (("key", self._plan.key), ("value", self._plan.value)):
            encoder = self._encoders.get(f"{topic} {name}")
            if encoder is None:
                encoder = self._encoders[f"{topic} {name}"] = field_encoder(
                    field, name=name, topic=topic, registration=self._registration(field)
                )
            columns.append(encoder.encode(batch))
        rows = Rows(columns[0], columns[1], headers or no_headers(), headers is not None)
        return TopicRows(topic, rows, self._wanted_partitions(batch), batch)

    def _registration(self, field: FieldColumns) -> Registration | None:
        plan = self._plan
        if field.format != "avro" or not field.columns:
            return None
        assert plan.registry is not None, "the options were checked"
        column: DataType = StructType([plan.schema[position] for position in field.columns])
        if not field.is_record:
            column = plan.schema[field.columns[0]].dataType
        column_type = to_arrow_type(column, timezone="UTC")
        return Registration(plan.registry, column_type, registers=plan.registers_schemas, uses_latest=plan.uses_latest_version)

    def _headers(self, batch: pa.RecordBatch) -> HeaderColumn | None:
        if self._plan.headers_column is None:
            return None
        headers = header_column(batch.column(self._plan.headers_column))
        if headers.keys.is_null.any():
            raise DeliveryFailed("a row has a header without a name: a key in its column `headers` is null")
        return headers

    def _wanted_partitions(self, batch: pa.RecordBatch) -> Offsets | None:
        if self._plan.partition_column is None:
            return None
        partitions = batch.column(self._plan.partition_column)
        # -1 in the column is not an absent partition: it must not pass for one.
        moved = pc.if_else(pc.less(partitions, 0), pc.subtract(partitions.cast(pa.int64()), 1), partitions)
        found: Offsets = moved.fill_null(NO_PARTITION).to_numpy(zero_copy_only=False).astype(np.int64)
        return found
