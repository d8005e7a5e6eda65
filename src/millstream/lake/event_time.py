"""The time of an event, taken from a field of its message instead of the message's own time.

The field is a timestamp, or a whole number of milliseconds since 1970; it may lie inside of records (`request.at`). A row whose field is
null, or not between the years 1970 and 9999, has no event time: it stays a row, in the partition of those without.
"""

from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from millstream.arrow.kernels.compiled import Flags, Ints
from millstream.errors import UsageError
from millstream.lake.columns import TIMESTAMP
from millstream.lake.hour_files import END_OF_TIME_US

NO_TIME_US: Final = -1
_US_PER_MS: Final = 1000


def check_event_time(columns: pa.Schema, path: str, *, where: str) -> None:
    """Raises `UsageError` unless the columns have this field, and times can be read from it."""
    fields = {field.name: field.type for field in columns}
    kind: pa.DataType | None = None
    for name in path.split("."):
        kind = fields.get(name)
        if kind is None:
            raise UsageError(f"event-time {path}: {where} has no field {name}; there are {', '.join(sorted(fields)) or 'none'}.")
        fields = {field.name: field.type for field in kind} if pa.types.is_struct(kind) else {}
    if not (pa.types.is_timestamp(kind) or pa.types.is_int64(kind)):
        raise UsageError(
            f"event-time {path}: in {where} it is {kind}, and a time is a timestamp or a whole number of milliseconds since 1970."
        )


def event_times_us(rows: pa.RecordBatch, path: str) -> Ints:
    """The event time of each row in microseconds; `NO_TIME_US` where there is none."""
    first, *inner = path.split(".")
    column = rows.column(first)
    if inner:
        column = pc.struct_field(column, inner)
    known = np.asarray(column.is_valid())
    if pa.types.is_timestamp(column.type):
        times: Ints = np.asarray(column.cast(pa.timestamp("us", tz=column.type.tz)).cast(pa.int64()).fill_null(NO_TIME_US))
    else:
        milliseconds = np.asarray(column.fill_null(NO_TIME_US))
        # Before it is multiplied: what is absurd must not come round to something sensible.
        known = known & (milliseconds >= 0) & (milliseconds < END_OF_TIME_US // _US_PER_MS)
        times = np.where(known, milliseconds, 0) * _US_PER_MS
    return np.where(known & is_time(times), times, NO_TIME_US)


def is_time(times_us: Ints) -> Flags:
    """Which of the times a date can be made of."""
    found: Flags = (times_us >= 0) & (times_us < END_OF_TIME_US)
    return found


def time_column(times_us: Ints) -> pa.Array:
    """Times as a column; those that no date can be made of are null."""
    is_known = is_time(times_us)
    if is_known.all():
        return pa.array(times_us, pa.int64()).cast(TIMESTAMP)
    return pa.array(np.where(is_known, times_us, 0), pa.int64(), mask=~is_known).cast(TIMESTAMP)
