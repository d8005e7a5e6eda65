from collections.abc import Iterable, Mapping

from millstream.broker.metrics.sample import GroupSample, Sample
from millstream.monitoring.lag import ASKED_PER_SAMPLE, Lags, PartitionLag
from millstream.topic_partition import TopicPartition
from tests.unit.monitoring.samples import partition_sample, sample_of

CLICKS = TopicPartition("clicks", 0)


class ScriptedReader:
    """Stands in for the other brokers."""

    def __init__(self, ends: Mapping[TopicPartition, int] | None = None, times: Mapping[TopicPartition, float] | None = None) -> None:
        self._ends = ends or {}
        self._times = times or {}
        self.asked: list[Mapping[TopicPartition, int]] = []

    def ends(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
        return {partition: self._ends[partition] for partition in partitions if partition in self._ends}

    def timestamps(self, wanted: Mapping[TopicPartition, int]) -> dict[TopicPartition, float]:
        self.asked.append(wanted)
        return {partition: self._times[partition] for partition in wanted if partition in self._times}


def clicks(*, end: int, committed: int, start: int = 0, leader: int = 1) -> Sample:
    return sample_of([partition_sample("clicks", end=end, start=start, leader=leader)], [GroupSample("g", 1, [("clicks", 0, committed)])])


def test_lag_is_what_lies_between_the_commit_and_the_end() -> None:
    lags = Lags(ScriptedReader())
    assert lags.of(clicks(end=10, committed=10), now=100) == [PartitionLag("g", CLICKS, 10, 0, 0.0)]
    assert lags.of(clicks(end=30, committed=10), now=110) == [PartitionLag("g", CLICKS, 10, 20, 10.0)]
    assert lags.of(clicks(end=30, committed=20), now=120) == [PartitionLag("g", CLICKS, 20, 10, 15.0)]


def test_commit_ahead_of_the_end_is_no_negative_lag() -> None:
    assert Lags(ScriptedReader()).of(clicks(end=10, committed=12), now=100) == [PartitionLag("g", CLICKS, 12, 0, 0.0)]


def test_numbers_of_micro_batches_are_no_positions() -> None:
    sample = sample_of([partition_sample("clicks", end=500)], [GroupSample("millstream-sink-5b59-clicks", 0, [("clicks", 0, 7)])])
    assert Lags(ScriptedReader()).of(sample, now=100) == []


def test_partition_that_another_broker_leads_is_asked_for_there() -> None:
    reader = ScriptedReader({CLICKS: 50}, {CLICKS: 70.0})
    assert Lags(reader).of(clicks(end=3, committed=10, leader=2), now=100) == [PartitionLag("g", CLICKS, 10, 40, 30.0)]


def test_lag_is_unknown_where_the_leader_does_not_answer() -> None:
    assert Lags(ScriptedReader()).of(clicks(end=30, committed=10, leader=2), now=100) == [PartitionLag("g", CLICKS, 10, None, None)]


def test_time_of_a_record_older_than_the_history_is_asked_for_once() -> None:
    reader = ScriptedReader(times={CLICKS: 40.0})
    lags = Lags(reader)
    assert lags.of(clicks(end=30, committed=10), now=100)[0].seconds == 60
    assert lags.of(clicks(end=31, committed=10), now=110)[0].seconds == 70
    assert reader.asked == [{CLICKS: 10}]


def test_what_was_deleted_is_not_waited_for() -> None:
    reader = ScriptedReader(times={CLICKS: 90.0})
    assert Lags(reader).of(clicks(end=30, committed=10, start=25), now=100) == [PartitionLag("g", CLICKS, 10, 20, 10.0)]
    assert reader.asked == [{CLICKS: 25}]


def test_clock_ahead_of_ours_makes_no_negative_time() -> None:
    assert Lags(ScriptedReader(times={CLICKS: 500.0})).of(clicks(end=30, committed=10), now=100)[0].seconds == 0


def test_few_records_are_asked_for_with_one_sample() -> None:
    count = ASKED_PER_SAMPLE + 20
    places = [TopicPartition("clicks", number) for number in range(count)]
    reader = ScriptedReader(times=dict.fromkeys(places, 90.0))
    lags = Lags(reader)
    sample = sample_of(
        [partition_sample("clicks", number, end=10) for number in range(count)],
        [GroupSample("g", 1, [("clicks", number, 5) for number in range(count)])],
    )
    assert sum(lag.seconds is None for lag in lags.of(sample, now=100)) == 20
    assert [lag.seconds for lag in lags.of(sample, now=101)] == [11.0] * count
    assert list(map(len, reader.asked)) == [ASKED_PER_SAMPLE, 20]
