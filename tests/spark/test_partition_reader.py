"""A task whose records go away while it reads them keeps what it has, and goes on with what is left."""

from collections.abc import Callable, Mapping
from typing import Any

import pytest

from millstream.arrow.data_loss import DataLoss
from millstream.arrow.kernels.record_kernel import WITH_VALUE
from millstream.arrow.partition_reader import PartitionReader
from millstream.client.cluster import Cluster
from millstream.client.codecs.list_offsets import OffsetAndTime
from millstream.client.codecs.metadata import PartitionMetadata
from millstream.offset import EARLIEST
from millstream.spark.source.offset_ranges import OffsetRange
from millstream.spark.source.read_options import parse_read_options
from millstream.topic_partition import TopicPartition
from tests.brokers import Broker
from tests.spark.admin import delete_records
from tests.spark.topic_content import Message, write
from tests.topics import delete_topic

SIZE = 20_000


class Interfering(Cluster):
    """A cluster where something happens before the leader is looked up for the n-th time, or after partitions said where they begin."""

    def __init__(self, broker: Broker, *, at_leader: Callable[[int], object] = int, at_beginning: Callable[[int], object] = int) -> None:
        super().__init__(broker.bootstrap_servers)
        self._at_leader = at_leader
        self._at_beginning = at_beginning
        self._leaders = 0
        self._beginnings = 0

    def led(self, topic: str, partition: int) -> PartitionMetadata:
        self._leaders += 1
        self._at_leader(self._leaders)
        return super().led(topic, partition)

    def offsets(self, wanted: Mapping[TopicPartition, int], **options: Any) -> dict[TopicPartition, OffsetAndTime]:
        found = super().offsets(wanted, **options)
        if EARLIEST in wanted.values():
            self._beginnings += 1
            self._at_beginning(self._beginnings)
        return found


@pytest.fixture
def large_records(broker: Broker, topic: str) -> str:
    """Ten records, each a batch of its own, of which a fetch has one."""
    for number in range(10):
        write(broker, topic, [Message(b"%d" % number * SIZE)])
    return topic


def read(broker: Broker, cluster: Cluster, topic: str, *, fail: bool = False) -> list[int]:
    """The numbers of the records that a task reads."""
    given = {
        "kafka.bootstrap.servers": broker.bootstrap_servers,
        "subscribe": topic,
        "failOnDataLoss": str(fail).lower(),
        "kafka.max.partition.fetch.bytes": str(SIZE + 500),
    }
    with cluster:
        reader = PartitionReader(cluster, parse_read_options(given), OffsetRange(TopicPartition(topic, 0), 0, 10), wanted=WITH_VALUE)
        return [int(value.as_py()[:1]) for records in reader.read() for value in records.values().to_arrow()]


def test_rows_that_were_fetched_before_the_topic_was_deleted_are_kept(broker: Broker, large_records: str) -> None:
    def delete(calls: int) -> None:
        if calls == 4:
            delete_topic(broker, large_records)

    found = read(broker, Interfering(broker, at_leader=delete), large_records)
    assert 0 < len(found) < 10
    assert found == list(range(len(found)))


def test_rows_that_were_fetched_before_all_others_were_deleted_are_kept(broker: Broker, large_records: str) -> None:
    def delete(calls: int) -> None:
        if calls == 4:
            delete_records(broker, large_records, before=10)

    found = read(broker, Interfering(broker, at_leader=delete), large_records)
    assert 0 < len(found) < 10
    assert found == list(range(len(found)))


def test_records_that_go_away_faster_than_they_are_asked_for_are_skipped(broker: Broker, large_records: str) -> None:
    delete_records(broker, large_records, before=2)

    def delete_more(calls: int) -> None:
        if calls <= 3:
            delete_records(broker, large_records, before=2 + 2 * calls)

    assert read(broker, Interfering(broker, at_beginning=delete_more), large_records) == [8, 9]


def test_the_first_loss_is_an_error_where_losses_are(broker: Broker, large_records: str) -> None:
    delete_records(broker, large_records, before=2)
    with pytest.raises(DataLoss, match=r"offset 0 of .* is gone: the partition now has the offsets from 2 up to 10"):
        read(broker, Interfering(broker), large_records, fail=True)
