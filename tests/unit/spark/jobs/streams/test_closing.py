from datetime import UTC, datetime, timedelta

from millstream.spark.jobs.streams.closing import closing_time

NOW_MS = 1_777_896_000_000
HOUR_MS = 3_600_000


def test_windows_that_have_begun_are_closed_and_the_next_ones_are_not() -> None:
    now, watermark = datetime.fromtimestamp(NOW_MS / 1000, UTC), timedelta(minutes=10)
    reached = closing_time(NOW_MS, span_ms=HOUR_MS + 600_000) - watermark
    assert now + timedelta(hours=1) < reached < now + timedelta(hours=1, minutes=1)
