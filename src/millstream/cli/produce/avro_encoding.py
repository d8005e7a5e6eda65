"""Values with a schema of the registry: the latest one of the topic's subject, or one from a file, which is registered.

The subject is `TOPIC-value` or `TOPIC-key`, as with every client of Confluent's by default.
"""

from pathlib import Path
from typing import Any, Final

from millstream.cli.produce.record_form import Encode
from millstream.errors import CommandFailed, UsageError

INSTALL: Final = "pip install '.[registry]' in a checkout of Millstream"


def make_avro_encoding(registry: str | None, topic: str, *, is_key: bool, schema_file: Path | None = None) -> Encode:
    """What encodes JSON documents for the topic."""
    from importlib.util import find_spec

    if registry is None:
        raise UsageError("Avro is written with a schema registry: name it with --registry URL, $MILLSTREAM_REGISTRY or in a profile.")
    if find_spec("fastavro") is None:
        raise UsageError(f"To write Avro fastavro is needed: {INSTALL}.")
    from millstream.avro.parser import parse_schema
    from millstream.cli.produce.avro_values import from_json
    from millstream.registry.avro_codec import avro_codec
    from millstream.registry.client import RegistryClient
    from millstream.registry.errors import SubjectNotFound
    from millstream.registry.wire_format import id_prefix

    subject = f"{topic}-{'key' if is_key else 'value'}"
    with RegistryClient(registry) as client:
        try:
            found = client.latest(subject) if schema_file is None else client.register(subject, _read(schema_file))
        except SubjectNotFound:
            advice = (
                f"register one with `millstream registry register {subject} FILE`, or give --{'key' if is_key else 'value'}-schema FILE"
            )
            raise CommandFailed(f"The registry at {registry} has no schema for {subject!r}: {advice}.") from None
        references = [one.schema for one in client.resolved_references(found)]
    codec, schema, prefix = (
        avro_codec(found.schema, references),
        parse_schema(found.schema, references=references).root,
        id_prefix(found.schema_id),
    )

    def encode(document: Any) -> bytes:
        try:
            return codec.encode(from_json(schema, document), prefix)
        except ValueError as error:
            raise UsageError(f"A record does not fit the schema {subject}: {error}.") from None

    return encode


def _read(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"The schema in {path} cannot be read: {getattr(error, 'strerror', None) or error}.") from None
