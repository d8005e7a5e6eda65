"""The schema that a read brings all messages to: the latest of a subject of the registry, with what it refers to."""

from millstream.arrow.avro.column_types import BadSchema
from millstream.registry.addresses import Addresses
from millstream.registry.client import RegisteredSchema, RegistryClient


def latest_schemas(registry: Addresses, subject: str) -> tuple[str, ...]:
    """The text of the subject's latest schema, after the texts of the schemas that it refers to. `RegistryError` if there is none or the
    registry does not answer, `BadSchema` if it is not Avro."""
    with RegistryClient(registry) as client:
        return with_references(client, client.latest(subject), name=f"the subject {subject!r}")


def with_references(client: RegistryClient, registered: RegisteredSchema, *, name: str) -> tuple[str, ...]:
    """The text of a schema, after the texts of the schemas that it refers to; `BadSchema` if it is not Avro."""
    if registered.schema_type != "AVRO":
        raise BadSchema(f"{name} has a schema of type {registered.schema_type}, not AVRO")
    return (*(reference.schema for reference in client.resolved_references(registered)), registered.schema)
