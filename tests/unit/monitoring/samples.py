"""Samples of a broker for tests."""

from collections.abc import Mapping, Sequence

from millstream.broker.metrics.sample import BrokerSample, GroupSample, PartitionSample, Sample
from millstream.monitoring.publisher import Publisher


def partition_sample(
    topic: str,
    partition: int = 0,
    *,
    leader: int = 1,
    replicas: int = 1,
    in_sync: int = 1,
    start: int = 0,
    end: int = 0,
    messages_in: int = 0,
    bytes_out: int = 0,
) -> PartitionSample:
    return PartitionSample(topic, partition, leader, 1, replicas, in_sync, 1, start, end, 100, messages_in, 0, bytes_out, 0, 0, 0, 0)


def sample_of(
    partitions: Sequence[PartitionSample] = (),
    groups: Sequence[GroupSample] = (),
    *,
    not_ready: str = "",
    is_controller: bool = True,
    topics: Mapping[str, int] | None = None,
    values: Mapping[str, int] | None = None,
    requests: Mapping[str, Sequence[int]] | None = None,
) -> Sample:
    broker = BrokerSample(1, "the-cluster", not_ready, is_controller, 3, topics or {}, 0, values or {}, requests or {})
    return Sample(broker, partitions, groups)


def take(publisher: Publisher, sample: Sample) -> None:
    """Note a sample and show it."""
    publisher.show(publisher.note(sample))
