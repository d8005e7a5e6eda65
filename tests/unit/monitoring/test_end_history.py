import pytest

from millstream.monitoring.end_history import SAMPLES, EndHistory
from millstream.topic_partition import TopicPartition

CLICKS = TopicPartition("clicks", 0)


def history(*samples: tuple[float, int]) -> EndHistory:
    noted = EndHistory()
    for now, end in samples:
        noted.note(now, {CLICKS: end})
    return noted


@pytest.mark.parametrize(
    ("offset", "expected"),
    [
        (99, None),  # before the history
        (100, 0.0),
        (150, 5.0),
        (199, 9.9),
        (200, 10.0),  # grew in the second stretch
        (300, 20.0 - 10 / 2),
        (400, None),  # not written yet
    ],
)
def test_record_was_written_when_the_end_passed_it(offset: int, expected: float | None) -> None:
    found = history((0, 100), (10, 200), (20, 400)).time_of(CLICKS, offset)
    assert found == (None if expected is None else pytest.approx(expected))


def test_quiet_partition_takes_two_samples_however_long_that_lasts() -> None:
    noted = history((0, 5), *((float(second), 10) for second in range(10, 10 * SAMPLES * 10, 10)), (20_000, 11))
    assert noted.time_of(CLICKS, 5) == 0.0
    assert noted.time_of(CLICKS, 10) == pytest.approx(5990)


def test_partition_that_begins_anew_has_no_history() -> None:
    assert history((0, 100), (10, 200), (20, 50), (30, 60)).time_of(CLICKS, 50) == 20
    assert history((0, 100), (10, 200), (20, 50), (30, 60)).time_of(CLICKS, 150) is None


def test_partitions_that_no_group_reads_are_forgotten() -> None:
    noted = history((0, 100), (10, 200))
    noted.keep_only([TopicPartition("other", 0)])
    assert noted.time_of(CLICKS, 150) is None
