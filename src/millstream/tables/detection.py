"""What keys and values look like, for who does not say it: a look at the oldest and the newest messages of a topic.

    all begin with a zero and the id of a schema that the registry knows       avro, by the subject's latest schema, or that of the id
    all values are JSON objects whose members have a type in common            json, with the columns that were seen
    all are UTF-8                                                              string
    anything else                                                              binary

It is a guess, made once per scan: who needs to be sure names the format. Text that looks like a time stays text.
"""

import io
from collections.abc import Sequence
from typing import Final, NamedTuple

import pyarrow as pa
import pyarrow.json

from millstream.arrow.avro.column_types import BadSchema
from millstream.arrow.avro.subject_schema import latest_schemas, with_references
from millstream.arrow.columns import Field, Format
from millstream.errors import CommandFailed, UsageError
from millstream.registry.addresses import Addresses, parse_addresses
from millstream.registry.client import RegistryClient
from millstream.registry.errors import RegistryError
from millstream.tables.scan_options import ScanOptions

SAMPLE_SIZE: Final = 1_000
"""How many messages are looked at."""
DEFAULT_REGISTRY: Final = "http://127.0.0.1:8081"
_FRAME_SIZE: Final = 5
_NOT_FOUND: Final = 404


class Detected(NamedTuple):
    """A format and its Arrow type; for Avro the schemas, and where they are from."""

    format: Format
    kind: pa.DataType
    schemas: tuple[str, ...] = ()
    registry: Addresses | None = None


def detect_format(name: Field, options: ScanOptions, sample: Sequence[bytes]) -> Detected:
    """The format that fits all of the sample."""
    if all(len(content) > _FRAME_SIZE and content[0] == 0 for content in sample):
        found = _find_avro(name, options, sample)
        if found is not None:
            return found
    if not sample or not _is_text(sample):
        return Detected("binary", pa.binary())
    if name == "value" and all(content.lstrip()[:1] == b"{" for content in sample):
        try:
            return Detected("json", infer_struct(sample, name=name))
        except UsageError:
            pass
    return Detected("string", pa.string())


def infer_struct(sample: Sequence[bytes], *, name: Field) -> pa.DataType:
    """The columns of JSON objects; `UsageError` if there are none in common."""
    advice = f"name the columns with {name}_schema, as {{'page': 'string', 'seconds': 'double'}}"
    if not sample:
        raise UsageError(f"the topic has no {name}s yet to see the columns of JSON in; {advice}")
    lines = b"\n".join(sample)
    try:
        parsing = pyarrow.json.ParseOptions(newlines_in_values=True)
        table = pyarrow.json.read_json(io.BytesIO(lines), pyarrow.json.ReadOptions(block_size=max(len(lines), 1)), parsing)
    except pa.ArrowInvalid as error:
        raise UsageError(f"the columns of {len(sample)} {name}s cannot be inferred: {error}; {advice}") from None
    return pa.struct([(field.name, _readable(field.type)) for field in table.schema])


def _readable(kind: pa.DataType) -> pa.DataType:
    """The type of a member: what was only null, and text that looks like a time, is text."""
    if pa.types.is_struct(kind):
        return pa.struct([(field.name, _readable(field.type)) for field in kind])
    if pa.types.is_list(kind):
        return pa.list_(_readable(kind.value_type))
    return kind if pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_boolean(kind) else pa.string()


def _is_text(sample: Sequence[bytes]) -> bool:
    try:
        for content in sample:
            content.decode()
    except UnicodeDecodeError:
        return False
    return True


def _find_avro(name: Field, options: ScanOptions, sample: Sequence[bytes]) -> Detected | None:
    """Avro, if the registry knows the subject or the schema of the last message; None if there is neither, or nothing to ask."""
    if not sample and options.registry is None:
        return None
    registry = options.registry or parse_addresses(DEFAULT_REGISTRY)
    field = options.key if name == "key" else options.value
    try:
        schemas = _schemas(registry, field.subject or f"{options.topic}-{name}", sample)
    except BadSchema:
        return None
    except RegistryError as error:
        raise CommandFailed(
            f"the {name}s of {options.topic!r} look like Avro, and nothing was learnt from the registry at "
            f"{', '.join(map(str, registry))}: {error}; say where it is, or that {name}s are binary"
        ) from None
    return None if schemas is None else Detected("avro", pa.null(), schemas, registry)


def _schemas(registry: Addresses, subject: str, sample: Sequence[bytes]) -> tuple[str, ...] | None:
    try:
        return latest_schemas(registry, subject)
    except RegistryError as error:
        if error.status != _NOT_FOUND:
            raise
    if not sample:
        return None
    schema_id = int.from_bytes(sample[-1][1:_FRAME_SIZE])
    with RegistryClient(registry) as client:
        try:
            return with_references(client, client.schema_by_id(schema_id), name=f"the id {schema_id}")
        except RegistryError as error:
            if error.status != _NOT_FOUND:
                raise
            return None
