"""Which columns a table of records has, and what its keys and values are: words that planning needs before Arrow is loaded.

key  value  topic  partition  offset  timestamp  timestampType  headers  corrupt_key  corrupt_value
"""

from dataclasses import dataclass
from typing import Final, Literal

Field = Literal["key", "value"]
Format = Literal["binary", "string", "json", "avro"]
Mode = Literal["FAILFAST", "PERMISSIVE", "DROPMALFORMED"]
"""What becomes of a key or value that is not what its format says: an error, a null beside the bytes, or no row at all."""

CORRUPT_COLUMNS: Final[dict[str, Field]] = {"corrupt_key": "key", "corrupt_value": "value"}


@dataclass(frozen=True, slots=True)
class FieldColumns:
    """Where keys or values come from: one column, or several as a record; how they are written; and, for Avro, by which schema."""

    format: Format
    columns: tuple[int, ...]
    is_record: bool
    """Whether the columns make a record together; otherwise there is one of them, or none."""
    schema: str | None = None
    subject: str | None = None
