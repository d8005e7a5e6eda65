import pytest

from millstream.audit.reports.report import NO_TIME, bucket_of


@pytest.mark.parametrize(("timestamp", "bucket"), [(0, 0), (599_999, 0), (600_000, 600_000), (1_234_567, 1_200_000), (-1, NO_TIME)])
def test_the_bucket_of_a_time(timestamp: int, bucket: int) -> None:
    assert bucket_of(timestamp, 600_000) == bucket
