"""The columns of a table: those of the Spark source, with the fields of a record as columns in the place of `value`.

    key  value  topic  partition  offset  timestamp  timestampType  headers  corrupt_key  corrupt_value
         page  user  seconds ...                                             with mode = PERMISSIVE

Kafka's columns keep their names: a field of a record that is called like one of them, whatever its case, gets `value_` in front. What
becomes of a tombstone, a null value, looks like a record of nulls; `flatten=False` keeps the record as one column.

`headers` are there for whoever names them. Nothing is built for a column that is not chosen, unless malformed messages are to be dropped,
which takes a look at them.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

import pyarrow as pa

from millstream.arrow.columns import CORRUPT_COLUMNS, Field, Mode
from millstream.arrow.field_decoding import FieldFormat
from millstream.arrow.record_buffers import RecordBuffers
from millstream.arrow.row_builder import RowBuilder
from millstream.errors import UsageError
from millstream.tables.field_plan import FieldPlan
from millstream.tables.scan_options import did_you_mean
from millstream.topic_partition import TopicPartition

_KAFKA: Final = {
    "topic": pa.string(),
    "partition": pa.int32(),
    "offset": pa.int64(),
    "timestamp": pa.timestamp("us", tz="UTC"),
    "timestampType": pa.int32(),
    "headers": pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())])),
}
_TAKEN: Final = {name.lower() for name in ("key", *_KAFKA, *CORRUPT_COLUMNS)}
_FIELDS: Final[tuple[Field, ...]] = ("key", "value")


class Column(NamedTuple):
    """A column of the table: which part of a record it is, and which field of the value, if it is one."""

    name: str
    kind: pa.DataType
    part: str
    member: str | None = None


@dataclass(frozen=True, slots=True)
class TableColumns:
    """The chosen columns, and how they are made."""

    columns: tuple[Column, ...]
    key: FieldPlan
    value: FieldPlan
    mode: Mode

    @property
    def schema(self) -> pa.Schema:
        """What the table looks like."""
        return pa.schema([(column.name, column.kind) for column in self.columns])

    def select(self, names: Sequence[str]) -> "TableColumns":
        """Only these columns, in this order."""
        known = {column.name: column for column in self.columns}
        for name in names:
            if name not in known:
                hint = did_you_mean(name, known, otherwise=lambda: f"there are {', '.join(known)}")
                raise UsageError(f"columns: there is no column {name!r}; {hint}")
        return TableColumns(tuple(known[name] for name in dict.fromkeys(names)), self.key, self.value, self.mode)

    def without_headers(self) -> "TableColumns":
        """What is read where no columns are named."""
        return TableColumns(tuple(column for column in self.columns if column.part != "headers"), self.key, self.value, self.mode)

    def decoded(self) -> dict[Field, FieldPlan]:
        """What of a record has to be decoded."""
        parts = {CORRUPT_COLUMNS.get(column.part, column.part) for column in self.columns}
        plans = {"key": self.key, "value": self.value}
        if self.mode == "DROPMALFORMED":
            parts |= {name for name in _FIELDS if plans[name].format != "binary"}
        return {name: self._narrowed(name, plans[name]) for name in _FIELDS if name in parts}

    def _narrowed(self, name: Field, plan: FieldPlan) -> FieldPlan:
        members = [column.member for column in self.columns if column.part == name and column.member is not None]
        looked_at = self.mode == "DROPMALFORMED" or any(CORRUPT_COLUMNS.get(column.part) == name for column in self.columns)
        return plan if looked_at or not members else plan.narrowed(members)


def all_columns(key: FieldPlan, value: FieldPlan, *, mode: Mode, flatten: bool) -> TableColumns:
    """Every column that there is, headers too."""
    values = _members(value) if flatten and value.is_record else [Column("value", value.kind, "value")]
    plans = {"key": key, "value": value}
    corrupt = [
        Column(name, pa.binary(), name)
        for name, field in CORRUPT_COLUMNS.items()
        if mode == "PERMISSIVE" and plans[field].format != "binary"
    ]
    kafka = [Column(name, kind, name) for name, kind in _KAFKA.items()]
    return TableColumns((Column("key", key.kind, "key"), *values, *kafka, *corrupt), key, value, mode)


class TableRows:
    """Makes the rows of one partition, in one thread."""

    def __init__(self, columns: TableColumns, place: TopicPartition, formats: dict[Field, FieldFormat]) -> None:
        self._columns = columns
        self._schema = columns.schema
        kinds: dict[str, pa.DataType] = {name: plan.kind for name, plan in columns.decoded().items()}
        parts = {column.part: kinds.get(column.part, column.kind) for column in columns.columns}
        self._builder = RowBuilder(pa.schema(list(parts.items())), place, formats=formats, mode=columns.mode)

    @property
    def wanted(self) -> int:
        """Which parts of a record the kernel has to take."""
        return self._builder.wanted

    def build(self, records: RecordBuffers) -> pa.RecordBatch:
        """The rows of these records."""
        batch = self._builder.build(records)
        if all(column.member is None for column in self._columns.columns):
            return batch
        value = batch.column("value")
        members = dict(zip((field.name for field in value.type), value.flatten(), strict=True))
        arrays = [batch.column(column.part) if column.member is None else members[column.member] for column in self._columns.columns]
        return pa.RecordBatch.from_arrays(arrays, schema=self._schema)


def _members(value: FieldPlan) -> list[Column]:
    columns: dict[str, Column] = {}
    for field in value.kind:
        name = field.name
        while name.lower() in _TAKEN or name in columns:
            name = f"value_{name}"
        columns[name] = Column(name, field.type, "value", field.name)
    return list(columns.values())
