"""Making the plan of a read: what has to be looked up once, before the first row.

The Avro schema that a query reads with is the latest of its subject at this moment, or the one that its options give. It stays the same for
the whole query, whatever is registered later: messages of other schemas are brought to it.
"""

from millstream.arrow.columns import Field
from millstream.registry.client import RegistryClient
from millstream.registry.errors import RegistryError
from millstream.spark.source.options import FieldOptions, ReadOptions
from millstream.spark.source.positions import OptionError
from millstream.spark.source.read_plan import FieldPlan, ReadPlan


def make_plan(options: ReadOptions) -> ReadPlan:
    """The plan of a read with these options."""
    return ReadPlan(_plan_field("key", options), _plan_field("value", options), options.mode, options.registry)


def _plan_field(name: Field, options: ReadOptions) -> FieldPlan:
    field: FieldOptions = getattr(options, name)
    if field.format != "avro":
        return FieldPlan(field)
    from millstream.arrow.avro.column_types import BadSchema, arrow_type, parse_avro  # only who reads Avro needs it

    schemas = (field.schema,) if field.schema is not None else _find_schemas(name, field, options)
    try:
        arrow_type(parse_avro(schemas))
    except BadSchema as error:
        where = f"{name}.schema" if field.schema is not None else f"{name}.subject"
        raise OptionError(where, f"the schema cannot be read with: {error}") from None
    return FieldPlan(field, schemas)


def _find_schemas(name: Field, field: FieldOptions, options: ReadOptions) -> tuple[str, ...]:
    subject = field.subject
    if subject is None:
        topics = options.selection.names()
        if topics is None or len(topics) != 1:
            raise OptionError(
                f"{name}.subject", f"{name}.format = avro on more than one topic needs it: the subject whose schema gives the columns"
            )
        subject = f"{topics[0]}-{name}"
    assert options.registry is not None, "the options were checked"
    with RegistryClient(options.registry) as registry:
        try:
            latest = registry.latest(subject)
            references = registry.resolved_references(latest)
        except RegistryError as error:
            raise OptionError(
                f"{name}.subject, schema.registry.url", f"the schema of the subject {subject!r} was not found: {error}"
            ) from None
    if latest.schema_type != "AVRO":
        raise OptionError(f"{name}.format", f"the subject {subject!r} has a schema of type {latest.schema_type}, not AVRO")
    return (*(reference.schema for reference in references), latest.schema)
