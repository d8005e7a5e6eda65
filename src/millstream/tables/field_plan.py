"""How keys or values are read: their format, the Arrow type that it gives them, and, for Avro, the schema that all messages are brought to.

Decided once per scan, by asking the registry or, where the format is `auto` or the columns of JSON are not given, by looking at some
messages (`detection`). Columns that are not wanted are not decoded: `narrowed` leaves fields of a record out of the reader's schema.
"""

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace

import pyarrow as pa

from millstream.arrow.avro.column_types import BadSchema, arrow_type, parse_avro
from millstream.arrow.avro.format import AvroFormat
from millstream.arrow.avro.subject_schema import latest_schemas
from millstream.arrow.columns import Field, Format
from millstream.arrow.field_decoding import FieldFormat, make_format
from millstream.avro.schema import Record, Schema
from millstream.errors import CommandFailed, UsageError
from millstream.registry.addresses import Addresses
from millstream.registry.errors import RegistryError
from millstream.tables.detection import detect_format, infer_struct
from millstream.tables.scan_options import FieldOptions, ScanOptions

Sample = Callable[[Field], Sequence[bytes]]
"""Some keys or values of the topic, without nulls, the newest last."""


@dataclass(frozen=True, slots=True)
class FieldPlan:
    """How keys or values are read."""

    format: Format
    kind: pa.DataType
    avro: Schema | None = None
    registry: Addresses | None = None

    @property
    def is_record(self) -> bool:
        """Whether its fields can be columns."""
        return bool(pa.types.is_struct(self.kind)) and (self.avro is None or isinstance(self.avro, Record))

    def narrowed(self, names: Collection[str]) -> "FieldPlan":
        """The same with only these fields of the record."""
        if not self.is_record:
            return self
        kind = pa.struct([field for field in self.kind if field.name in names])
        if not isinstance(self.avro, Record):
            return replace(self, kind=kind)
        record = Record(self.avro.fullname, self.avro.aliases, fields=tuple(field for field in self.avro.fields if field.name in names))
        return replace(self, kind=kind, avro=record)

    def open(self) -> FieldFormat:
        """The format, for one thread."""
        if self.avro is None:
            return make_format(self.format, self.kind)
        assert self.registry is not None, "Avro comes with a registry"
        return AvroFormat(self.avro, self.registry, self.kind)


def plan_field(name: Field, options: ScanOptions, sample: Sample) -> FieldPlan:
    """How keys or values of this scan are read."""
    field: FieldOptions = options.key if name == "key" else options.value
    if field.format == "auto":
        return detect(name, options, sample(name))
    if field.format == "binary":
        return FieldPlan("binary", pa.binary())
    if field.format == "string":
        return FieldPlan("string", pa.string())
    if field.format == "json":
        kind = infer_struct(sample(name), name=name) if field.schema is None else _json_kind(name, field)
        return FieldPlan("json", kind)
    if isinstance(field.schema, str):
        return _avro_plan((field.schema,), options.registry, where=f"{name}_schema")
    subject = field.subject or f"{options.topic}-{name}"
    return _avro_plan(find_schemas(options, subject), options.registry, where=f"the subject {subject!r}")


def find_schemas(options: ScanOptions, subject: str) -> tuple[str, ...]:
    """The latest schema of a subject; errors are sentences."""
    assert options.registry is not None, "the options were checked"
    places = ", ".join(map(str, options.registry))
    try:
        return latest_schemas(options.registry, subject)
    except BadSchema as error:
        raise UsageError(f"{error}: only Avro can be read by a schema") from None
    except RegistryError as error:
        raise CommandFailed(f"the schema of the subject {subject!r} was not found at {places}: {error}") from None


def detect(name: Field, options: ScanOptions, sample: Sequence[bytes]) -> FieldPlan:
    """What keys or values look like."""
    found = detect_format(name, options, sample)
    if found.schemas:
        return _avro_plan(found.schemas, found.registry, where=f"the schema of {options.topic}")
    return FieldPlan(found.format, found.kind)


def _avro_plan(schemas: Sequence[str], registry: Addresses | None, *, where: str) -> FieldPlan:
    try:
        schema = parse_avro(schemas)
        return FieldPlan("avro", arrow_type(schema), schema, registry)
    except BadSchema as error:
        raise UsageError(f"{where} cannot be read with: {error}") from None


def _json_kind(name: Field, field: FieldOptions) -> pa.DataType:
    given = field.schema
    try:
        if isinstance(given, Mapping):
            given = pa.schema(dict(given))
        if not isinstance(given, pa.Schema):
            raise TypeError(f"{given!r} is no schema")
        kind = pa.struct(list(given))
        make_format("json", kind)
    except (TypeError, ValueError, pa.ArrowException) as error:
        raise UsageError(
            f"{name}_schema: {error}; with {name}_format='json' it is a pyarrow schema, or a dict of names and types "
            "as {'page': 'string', 'seconds': 'double'}"
        ) from None
    return kind
