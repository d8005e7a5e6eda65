from datetime import UTC, datetime
from typing import Any

import pyarrow as pa
import pytest

from millstream.errors import UsageError
from millstream.lake.event_time import NO_TIME_US, check_event_time, event_times_us, time_column

NOON = datetime(2026, 5, 4, 12, tzinfo=UTC)
NOON_US = int(NOON.timestamp()) * 1_000_000


def rows(kind: pa.DataType, values: list[Any]) -> pa.RecordBatch:
    return pa.record_batch([pa.array(values, kind)], names=["at"])


def test_a_timestamp_is_a_time() -> None:
    for unit in ("ms", "us"):
        for zone in ("UTC", None):
            moment = NOON if zone else NOON.replace(tzinfo=None)
            batch = rows(pa.timestamp(unit, tz=zone), [moment, None])
            assert event_times_us(batch, "at").tolist() == [NOON_US, NO_TIME_US]


def test_a_whole_number_is_milliseconds_and_what_is_absurd_is_no_time() -> None:
    end_ms = 253_402_300_800_000
    values = [NOON_US // 1000, 0, None, -5, end_ms - 1, end_ms, 2**63 - 1, -(2**63), 2**64 // 1000]
    found = event_times_us(rows(pa.int64(), values), "at").tolist()
    assert found == [NOON_US, 0, NO_TIME_US, NO_TIME_US, (end_ms - 1) * 1000, *[NO_TIME_US] * 4]


def test_a_field_may_lie_inside_of_records() -> None:
    kind = pa.struct([("meta", pa.struct([("time", pa.int64())]))])
    batch = rows(kind, [{"meta": {"time": 7}}, {"meta": None}, None, {"meta": {"time": None}}])
    assert event_times_us(batch, "at.meta.time").tolist() == [7000, NO_TIME_US, NO_TIME_US, NO_TIME_US]
    check_event_time(batch.schema, "at.meta.time", where="the table")


def test_times_become_a_column_with_nulls_for_none() -> None:
    times = event_times_us(rows(pa.int64(), [NOON_US // 1000, None]), "at")
    assert time_column(times).to_pylist() == [NOON, None]
    assert time_column(times[:1]).to_pylist() == [NOON]


@pytest.mark.parametrize(
    ("path", "problem"),
    [
        ("when", "event-time when: the table t has no field when; there are at, text"),
        ("at.x", "has no field x; there are none"),
        ("text", "in the table t it is string, and a time is a timestamp or a whole number of milliseconds"),
    ],
)
def test_a_field_that_has_no_times_is_refused(path: str, problem: str) -> None:
    with pytest.raises(UsageError, match=problem):
        check_event_time(pa.schema([("at", pa.int64()), ("text", pa.string())]), path, where="the table t")
