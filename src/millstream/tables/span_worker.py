"""What one thread of a scan has: connections to the brokers, the formats of keys and values, and the work on one span after the other."""

from collections.abc import Iterator
from typing import Self

import pyarrow as pa

from millstream.arrow.avro.format import AvroFormat
from millstream.arrow.columns import Field
from millstream.arrow.field_decoding import FieldFormat
from millstream.arrow.kernels.compiled import warn_if_slow
from millstream.arrow.partition_reader import PartitionReader
from millstream.tables.offset_spans import Span
from millstream.tables.scan_options import ScanOptions
from millstream.tables.table_columns import TableColumns, TableRows


class SpanWorker:
    """Reads spans, in one thread."""

    def __init__(self, options: ScanOptions, columns: TableColumns) -> None:
        warn_if_slow()
        self._options = options
        self._columns = columns
        self._formats: dict[Field, FieldFormat] = {name: plan.open() for name, plan in columns.decoded().items()}
        self.cluster = options.open_cluster()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.cluster.close()
        for opened in self._formats.values():
            if isinstance(opened, AvroFormat):
                opened.close()

    def rows(self, span: Span) -> TableRows:
        """What makes rows of the span's partition."""
        return TableRows(self._columns, span.place, self._formats)

    def read(self, span: Span) -> Iterator[pa.RecordBatch]:
        """The rows of a span, in order."""
        rows = self.rows(span)
        for records in PartitionReader(self.cluster, self._options, span, wanted=rows.wanted).read():
            yield rows.build(records)
