"""kio's messages as hypothesis draws them, and kio's own bytes for them: what Millstream's codecs are compared with.

kio's native reader is only ever given bytes that kio's own writer wrote: it believes the counts it reads.
"""

import io
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID

from hypothesis import strategies as st
from kio.schema.errors import ErrorCode
from kio.serial import entity_reader, entity_writer

from codegen.kio_schema import REQUIRED, KioField, KioSchema, describe, entity_class, plain
from millstream.wire.api import API_VERSIONS
from millstream.wire.messages import schema_of
from millstream.wire.schema import Schema

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
MILLISECOND = timedelta(milliseconds=1)
MAX_INSTANT_MS = 4_000_000_000_000
MAX_DURATION_MS = 10**14

NUMBERS: dict[str, st.SearchStrategy[Any]] = {
    "int8": st.integers(-(2**7), 2**7 - 1),
    "uint8": st.integers(0, 2**8 - 1),
    "int16": st.integers(-(2**15), 2**15 - 1),
    "uint16": st.integers(0, 2**16 - 1),
    "int32": st.integers(-(2**31), 2**31 - 1),
    "uint32": st.integers(0, 2**32 - 1),
    "int64": st.integers(-(2**63), 2**63 - 1),
    "uint64": st.integers(0, 2**64 - 1),
    "float64": st.floats(allow_nan=False, allow_infinity=False),
    "bool": st.booleans(),
    "string": st.text(max_size=8) | st.text(alphabet="ab", min_size=120, max_size=300),
    "bytes": st.binary(max_size=8),
    "records": st.binary(max_size=8) | st.binary(min_size=120, max_size=300),
    "uuid": st.none() | st.uuids(),
    "timedelta_i32": st.integers(-(2**31), 2**31 - 1).map(lambda value: timedelta(milliseconds=value)),
    "timedelta_i64": st.integers(-MAX_DURATION_MS, MAX_DURATION_MS).map(lambda value: timedelta(milliseconds=value)),
    "datetime_i64": st.integers(0, MAX_INSTANT_MS).map(lambda value: EPOCH + timedelta(milliseconds=value)),
}


def kio_schema(api_key: int, version: int, kind: str) -> KioSchema:
    """What kio says one version of a request or response looks like."""
    return describe(entity_class(api_key, version, kind))


def every_schema(api_key: int) -> list[tuple[Schema, KioSchema]]:
    """All versions of an API's requests and responses, as we and as kio have them."""
    versions = API_VERSIONS[api_key]
    return [
        (schema_of(api_key, version, kind), kio_schema(api_key, version, kind))
        for version in range(versions.lowest, versions.highest + 1)
        for kind in ("request", "response")
    ]


def plain_message(schema: Schema, kio: KioSchema, entity: Any) -> Any:
    """What one of kio's objects is read into here; a field that the version does not have is its default."""
    nested = {field.name: field.nested for field in schema.fields}
    values = {field.kafka_name: _plain(nested[field.kafka_name], field, getattr(entity, field.name)) for field in kio.fields}
    return schema.plain(**values)


def _plain(nested: Schema | None, field: KioField, value: Any) -> Any:
    if nested is None or value is None:
        return plain(field, value)
    assert field.nested is not None
    if field.is_array:
        return tuple(plain_message(nested, field.nested, element) for element in value)
    return plain_message(nested, field.nested, value)


def entities(schema: KioSchema) -> st.SearchStrategy[Any]:
    """Objects of kio's class with any values that the schema allows."""
    return st.fixed_dictionaries({field.name: _values(field) for field in schema.fields}).map(lambda values: schema.entity(**values))


def _values(field: KioField) -> st.SearchStrategy[Any]:
    element = entities(field.nested) if field.nested is not None else _scalars(field)
    values: st.SearchStrategy[Any] = st.lists(element, max_size=3).map(tuple) if field.is_array else element
    if field.tag is not None:
        return st.just(field.default) | values
    return st.none() | values if field.is_nullable else values


def _scalars(field: KioField) -> st.SearchStrategy[Any]:
    return st.sampled_from(list(ErrorCode)) if field.kind == "error_code" else NUMBERS[field.kind]


def kio_bytes(entity: Any) -> bytes:
    """The body as kio's writer writes it."""
    buffer = io.BytesIO()
    entity_writer(type(entity))(buffer, entity)
    return buffer.getvalue()


def kio_read(schema: KioSchema, body: bytes) -> Any:
    """The body, written by kio, as kio's native reader reads it."""
    return entity_reader(schema.entity)(body, 0)[0]


def entity_of(schema: KioSchema, values: Mapping[str, Any]) -> Any:
    """kio's object for plain values with Kafka's names; what is not given has its default."""
    arguments = {}
    for field in schema.fields:
        value = values.get(field.kafka_name, values.get(field.name, REQUIRED))
        if value is not REQUIRED:
            arguments[field.name] = (
                tuple(_convert(field, element) for element in value) if field.is_array and value is not None else _convert(field, value)
            )
    return schema.entity(**arguments)


def _convert(field: KioField, value: Any) -> Any:
    if value is None:
        return None
    if field.nested is not None:
        return entity_of(field.nested, value)
    match field.kind:
        case "error_code":
            return ErrorCode(value)
        case "timedelta_i32" | "timedelta_i64":
            return timedelta(milliseconds=value)
        case "datetime_i64":
            return None if value == -1 else EPOCH + timedelta(milliseconds=value)
        case "uuid":
            return UUID(bytes=value) if any(value) else None
        case _:
            return value
