"""Gathered records of one topic to rows of its tables, and which of them could not be read."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from millstream.arrow.field_decoding import FieldFormat, TypedColumn, make_format
from millstream.arrow.kernels.compiled import Flags, Ints
from millstream.arrow.record_buffers import RecordBuffers, arrow_numbers
from millstream.arrow.row_builder import MalformedMessage
from millstream.lake.columns import HEADERS, TIMESTAMP, flattened
from millstream.lake.event_time import event_times_us, is_time, time_column
from millstream.registry.addresses import Addresses, parse_addresses
from millstream.spark.jobs.load.record_types import Malformed, RecordTypes
from millstream.spark.jobs.load.settings import LoadSettings
from millstream.spark.jobs.load.table_plan import FieldPlan, TablePlan
from millstream.topic_partition import TopicPartition


@dataclass(frozen=True, slots=True)
class TableRows:
    """Rows for one table, with the times that decide about their hours; of the records that belong to it, those that could not be read."""

    table: str
    rows: pa.RecordBatch
    timestamps_us: Ints
    malformed: Malformed | None


class TopicDecoder:
    """Makes rows of the records of one topic."""

    def __init__(self, settings: LoadSettings, plans: Sequence[TablePlan]) -> None:
        self._plans = plans
        self._fail_on_malformed = settings.fail_on_malformed
        registry: Addresses | None = None if settings.registry is None else parse_addresses(settings.registry, needs_scheme=True)
        self._values = {plan.table: _format(plan.value, registry) for plan in plans}
        self._key = _format(plans[0].key, registry)
        self._types = None if plans[0].record is None else RecordTypes(plans, registry)

    def close(self) -> None:
        """No more records come."""
        if self._types is not None:
            self._types.close()

    def decode(self, records: RecordBuffers, place: TopicPartition) -> Iterator[TableRows]:
        """The rows of each table."""
        keys = self._key.read(records.keys())
        if self._types is None:
            yield self._rows(self._plans[0], records, place, values=self._values[self._plans[0].table].read(records.values()), keys=keys)
            return
        for plan, is_of_type, column in self._types.split(records.values()):
            values = self._values[plan.table].read(column)
            yield self._rows(plan, records, place, values=values, keys=keys, among=is_of_type)
        unknown = self._types.unknown(records.values())
        if unknown is not None:
            yield self._without_table(records, place, unknown)

    def _rows(
        self,
        plan: TablePlan,
        records: RecordBuffers,
        place: TopicPartition,
        *,
        values: TypedColumn,
        keys: TypedColumn,
        among: Flags | None = None,
    ) -> TableRows:
        malformed = _malformed(values, keys, among)
        if malformed is not None and self._fail_on_malformed:
            _complain(malformed, records, place)
        columns = [*flattened(values.array), keys.array, *_origin(records, place)]
        if plan.with_headers:
            columns.append(records.headers(HEADERS))
        timestamps = records.timestamps_us()
        if plan.event_time is not None:
            # The files have a column more, which is made of one of these.
            timestamps = event_times_us(pa.RecordBatch.from_arrays(columns, plan.files.names[:-1]), plan.event_time)
            columns.append(time_column(timestamps))
        batch = pa.RecordBatch.from_arrays(columns, schema=plan.files)
        if malformed is not None or among is not None:
            keep = np.ones(records.rows, np.bool_) if among is None else among
            keep = keep if malformed is None else keep & ~malformed.is_malformed
            batch, timestamps = batch.filter(pa.array(keep)), timestamps[keep]
        return TableRows(plan.table, batch, timestamps, malformed)

    def _without_table(self, records: RecordBuffers, place: TopicPartition, unknown: Malformed) -> TableRows:
        if self._fail_on_malformed:
            _complain(unknown, records, place)
        plan = self._plans[0]
        return TableRows(plan.table, pa.RecordBatch.from_pylist([], schema=plan.files), np.zeros(0, np.int64), unknown)


def _format(plan: FieldPlan, registry: Addresses | None) -> FieldFormat:
    return make_format(plan.format, plan.kind, schemas=plan.avro, registry=registry)


def _malformed(values: TypedColumn, keys: TypedColumn, among: Flags | None) -> Malformed | None:
    broken = [column.broken for column in (values, keys) if column.broken is not None]
    if not broken:
        return None
    is_malformed: Flags = np.logical_or.reduce(broken)
    if among is not None:
        is_malformed &= among
    if not is_malformed.any():
        return None

    def explain(row: int) -> str:
        if values.broken is not None and values.broken[row]:
            return f"the value cannot be read: {values.explain(row)}"
        return f"the key cannot be read: {keys.explain(row)}"

    return Malformed(is_malformed, explain)


def _origin(records: RecordBuffers, place: TopicPartition) -> list[pa.Array]:
    """Partition, offset and time of each record."""
    times = records.timestamps_us()
    timestamps = arrow_numbers(times, TIMESTAMP) if is_time(times).all() else time_column(times)
    partitions = arrow_numbers(np.full(records.rows, place.partition, np.int32), pa.int32())
    return [partitions, arrow_numbers(records.offsets(), pa.int64()), timestamps]


def _complain(malformed: Malformed, records: RecordBuffers, place: TopicPartition) -> None:
    row = int(np.flatnonzero(malformed.is_malformed)[0])
    raise MalformedMessage(
        f"the message at offset {records.offsets()[row]} of {place} is malformed: {malformed.explain(row)}. "
        "Without --fail-on-malformed such messages go to a topic of dead letters"
    )
