"""One file of a table: where it is, what is in it, and the statistics that let readers skip it.

The statistics are in Delta's form, made of those that the Parquet writer has gathered anyway: for whole numbers, dates, times and short
texts that are columns themselves. Fractions have none (a NaN is in no range), nor have long texts.
"""

import json
from dataclasses import asdict, dataclass
from datetime import UTC, date, datetime
from typing import Any, Final

import pyarrow.parquet as pq

LONGEST_TEXT: Final = 32


@dataclass(frozen=True, slots=True)
class DataFile:
    """A file that is written and not yet part of its table; `path` is relative to the table. Date and hour are null without a time."""

    path: str
    size_bytes: int
    rows: int
    event_date: str | None
    event_hour: int | None
    statistics: str

    def document(self) -> dict[str, Any]:
        """The form in which it travels to who commits it."""
        return asdict(self)


def statistics_of(metadata: pq.FileMetaData) -> str:
    """Delta's statistics of a file."""
    flat = {name for name in metadata.schema.to_arrow_schema().names if "." not in name}
    lowest: dict[str, Any] = {}
    highest: dict[str, Any] = {}
    nulls: dict[str, int] = {}
    unknown: set[str] = set()
    for group in range(metadata.num_row_groups):
        for index in range(metadata.num_columns):
            column = metadata.row_group(group).column(index)
            name, known = column.path_in_schema, column.statistics
            if name not in flat:
                continue
            if known is None or not known.has_null_count:
                unknown.add(name)
                continue
            nulls[name] = nulls.get(name, 0) + known.null_count
            if known.null_count == column.num_values + known.null_count and not known.has_min_max:
                continue
            values = _range_of(known)
            if values is None:
                unknown.add(name)
                continue
            lowest[name] = min(lowest.get(name, values[0]), values[0])
            highest[name] = max(highest.get(name, values[1]), values[1])
    document = {
        "numRecords": metadata.num_rows,
        "minValues": {name: value for name, value in lowest.items() if name not in unknown},
        "maxValues": {name: value for name, value in highest.items() if name not in unknown},
        "nullCount": nulls,
    }
    return json.dumps(document, separators=(",", ":"))


def _range_of(statistics: Any) -> tuple[Any, Any] | None:
    if not statistics.has_min_max:
        return None
    try:
        lowest, highest = _value(statistics.min), _value(statistics.max)
    except (ValueError, OverflowError):
        # A time that Python has no date for.
        return None
    return None if lowest is None or highest is None else (lowest, highest)


def _value(value: Any) -> Any:
    if type(value) is int:
        return value
    if isinstance(value, str):
        return value if len(value) <= LONGEST_TEXT else None
    if isinstance(value, datetime):
        moment = value if value.tzinfo is None else value.astimezone(UTC)
        # Always four digits of a year, which `strftime` does not give to one before 1000: readers would skip the file by it.
        return moment.replace(tzinfo=None).isoformat(timespec="microseconds") + ("" if value.tzinfo is None else "Z")
    return value.isoformat() if isinstance(value, date) else None
