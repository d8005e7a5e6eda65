"""How a message says which schema wrote it: Confluent's framing, before the bytes or in a header.

    0  id (4 bytes, big endian)  payload         by id, which one registry (and context) gave
    1  GUID (16 bytes)           payload         by GUID, which is the same everywhere
    header `__key_schema_id` / `__value_schema_id` = 1 GUID, or 0 id; then the message is the payload alone

Both are read; a header wins, as in Confluent's clients.
"""

import struct
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final
from uuid import UUID

from millstream.registry.errors import SerializationFailed

ID_MAGIC: Final = 0
GUID_MAGIC: Final = 1
KEY_HEADER: Final = "__key_schema_id"
VALUE_HEADER: Final = "__value_schema_id"
_ID: Final = struct.Struct(">bi")
_GUID_LENGTH: Final = 17

Headers = Iterable[tuple[str, bytes | str | None]] | Mapping[str, bytes | str | None]


@dataclass(frozen=True, slots=True)
class SchemaMark:
    """The schema of a message, by id or by GUID, and where the payload begins."""

    schema_id: int | None
    guid: str | None
    payload_start: int


def id_prefix(schema_id: int) -> bytes:
    """What stands before a payload, by id."""
    return _ID.pack(ID_MAGIC, schema_id)


def guid_header(guid: str) -> bytes:
    """The header's value, by GUID."""
    return bytes([GUID_MAGIC]) + UUID(guid).bytes


def read_mark(message: bytes, headers: Headers | None = None, *, is_key: bool = False) -> SchemaMark:
    """Which schema wrote a message; raises SerializationFailed if it does not say."""
    in_header = _header(headers, KEY_HEADER if is_key else VALUE_HEADER) if headers else None
    if in_header is not None:
        mark = _mark(in_header, "its header")
        return SchemaMark(mark.schema_id, mark.guid, 0)
    return _mark(message, "it")


def _mark(data: bytes, where: str) -> SchemaMark:
    if data[:1] == b"\x00" and len(data) >= _ID.size:
        return SchemaMark(_ID.unpack_from(data)[1], None, _ID.size)
    if data[:1] == b"\x01" and len(data) >= _GUID_LENGTH:
        return SchemaMark(None, str(UUID(bytes=bytes(data[1:_GUID_LENGTH]))), _GUID_LENGTH)
    shown = bytes(data[:8]).hex(" ") or "nothing"
    raise SerializationFailed(f"The message was not written with a schema registry: {where} begins with {shown}, and not with 0 and an id.")


def _header(headers: Headers, name: str) -> bytes | None:
    for key, value in headers.items() if isinstance(headers, Mapping) else headers:
        if key == name and value is not None:
            return value.encode("latin-1") if isinstance(value, str) else value
    return None
