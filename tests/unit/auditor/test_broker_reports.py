from collections.abc import Mapping
from dataclasses import replace
from typing import cast
from uuid import UUID

import pytest

from millstream.audit.offset_set import OffsetSet
from millstream.audit.reports.report import Count, Kind, ReadRange, Report
from millstream.auditor.broker_reports import BrokerReports
from millstream.client.cluster import Cluster
from millstream.client.codecs.list_offsets import OffsetAndTime
from millstream.client.codecs.metadata import ClusterMetadata, PartitionMetadata, TopicMetadata
from millstream.errors import LeaderNotAvailable
from millstream.topic_partition import TopicPartition
from tests.unit.audit.some_reports import origin, report


class OneTopic:
    """A cluster `live` with one topic that ends at offset 100, and grows."""

    def __init__(self) -> None:
        self.end = 100
        self.asked = 0
        self.is_away = False
        topics = {"orders": TopicMetadata("orders", UUID(int=1), 0, {0: PartitionMetadata(0, 1, 0, (1,), (1,))})}
        self.metadata = ClusterMetadata(cluster_id="live", topics=topics)

    def refresh(self, topics: object) -> ClusterMetadata:
        return self.metadata

    def offsets(self, wanted: Mapping[TopicPartition, int]) -> dict[TopicPartition, OffsetAndTime]:
        self.asked += 1
        if self.is_away:
            raise LeaderNotAvailable
        return dict.fromkeys(wanted, OffsetAndTime(self.end, -1))


def read_up_to(end: int, *, start: int = 0, tier: str = "broker", cluster: str = "live", topic_id: int = 1) -> Report:
    count = Count(0, end - start, partition=0, offsets=OffsetSet((start, end)))
    made = report(count, by=origin(tier, Kind.BROKER, cluster), read=(ReadRange(0, start, end),))
    return replace(made, topic_id=str(UUID(int=topic_id)))


def check(cluster: OneTopic, *reports: Report) -> None:
    checked = BrokerReports(cast(Cluster, cluster))
    for one in reports:
        checked.check(one)


@pytest.mark.parametrize(
    ("false", "reason"),
    [
        (read_up_to(50, cluster="gone"), "of the cluster 'gone'"),
        (read_up_to(50, tier="kafka"), "the tier 'kafka'"),
        (read_up_to(2**62), "ends at 100"),
        (replace(read_up_to(50), read=()), "counts what it has not read"),
        (replace(read_up_to(50), read=(ReadRange(0, 10, 60),)), "counts what it has not read"),
    ],
)
def test_what_no_auditor_says_of_a_log_is_no_report(false: Report, reason: str) -> None:
    with pytest.raises(ValueError, match=reason):
        check(OneTopic(), false)


def test_what_an_auditor_says_is_a_report_and_the_log_is_asked_for_its_end_once() -> None:
    cluster = OneTopic()
    check(cluster, read_up_to(50), read_up_to(100, start=50), report(Count(0, 5)))
    assert cluster.asked == 1


def test_a_topic_that_is_another_one_by_now_or_has_no_leader_cannot_be_compared() -> None:
    cluster = OneTopic()
    check(cluster, read_up_to(1_000, topic_id=2))
    cluster.is_away = True
    check(cluster, read_up_to(1_000))
