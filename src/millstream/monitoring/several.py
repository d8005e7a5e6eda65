"""The samples of several brokers of one machine as one: what a page says of a partition, a group or the cluster it says once.

What is about a broker is labelled with its number (`families`); requests, and what happened to topics, are added up. Such a sum never goes
back: what a broker had counted stays in it when the broker is down or was started again, and counts from 0. (To Prometheus a counter that
is lower than before began anew, and all of it happened since.)
"""

from collections.abc import Collection, Mapping, Sequence
from types import MappingProxyType
from typing import Any, BinaryIO, Final, NamedTuple

from millstream.broker.metrics.sample import BrokerSample, PartitionSample, Sample, read_several

SUMMED: Final = PartitionSample._fields.index("size_bytes")
"""The first of the fields that each replica of a partition counts for itself."""
NO_PARTITION: Final = -1
NO_LEADER: Final = -1


class Several:
    """Takes samples of the same brokers again and again, each time as one."""

    def __init__(self) -> None:
        self._last: dict[int, Sample] = {}
        """What each broker said last, by its number."""
        self._ended = Ended()
        """What former processes of the brokers had counted."""

    def read(self, stream: BinaryIO) -> Sample | None:
        """The samples of all brokers that are up, taken together; None when there are no more."""
        found = read_several(stream)
        return None if found is None else self.take(found[0], expected=found[1])

    def take(self, samples: Sequence[Sample], *, expected: Sequence[int]) -> Sample:
        """One sample of those of the brokers that gave one."""
        for sample in samples:
            before = self._last.get(sample.broker.node_id)
            if before is not None and before.broker.process_id != sample.broker.process_id:
                self._ended = self._ended.with_life(before)
            self._last[sample.broker.node_id] = sample
        ended, present = self._ended, {sample.broker.node_id for sample in samples}
        for number in self._last.keys() - present:
            ended = ended.with_life(self._last[number])
        topics = next((sample.broker.topics for sample in samples if sample.broker.is_controller), None)
        if topics is not None:
            self._ended = self._ended.only(topics)
        return merged(samples, expected=expected, ended=ended)


class Ended(NamedTuple):
    """What was counted by processes that do not say it any more."""

    requests: Mapping[str, Sequence[int]] = MappingProxyType({})
    topics: Mapping[str, PartitionSample] = MappingProxyType({})
    """A row for each topic, as if it were one more replica of it."""

    def with_life(self, sample: Sample) -> "Ended":
        """With what this process had counted at last."""
        topics = dict(self.topics)
        for row in sample.partitions:
            counted = row._replace(partition=NO_PARTITION, leader=NO_LEADER, size_bytes=0, adding=0, is_reassigning=False)
            topics[row.topic] = _sum(topics[row.topic], counted) if row.topic in topics else counted
        return Ended(_requests([self.requests, sample.broker.requests]), topics)

    def only(self, topics: Collection[str]) -> "Ended":
        """Without what was counted of topics that are gone."""
        return self._replace(topics={topic: row for topic, row in self.topics.items() if topic in topics})


def merged(samples: Sequence[Sample], *, expected: Sequence[int], ended: Ended = Ended()) -> Sample:  # noqa: B008 -- never changed
    """One sample of those of the brokers that gave one, and of what was counted before."""
    brokers = [sample.broker for sample in samples]
    topics = {topic: count for broker in brokers for topic, count in broker.topics.items()}
    known = {*topics, *(row.topic for sample in samples for row in sample.partitions)}
    return Sample(
        BrokerSample(
            node_id=-1,
            cluster_id=next((broker.cluster_id for broker in brokers), ""),
            not_ready="; ".join(_reasons(brokers, expected)),
            is_controller=any(broker.is_controller for broker in brokers),
            brokers=max((broker.brokers for broker in brokers if broker.is_controller), default=0),
            topics=topics,
            offline_partitions=sum(broker.offline_partitions for broker in brokers),
            values={},
            requests=_requests([ended.requests, *(broker.requests for broker in brokers)]),
        ),
        _partitions(samples),
        [group for sample in samples for group in sample.groups],
        samples,
        [row for topic, row in ended.topics.items() if topic in known],
    )


def _reasons(brokers: Sequence[BrokerSample], expected: Sequence[int]) -> list[str]:
    silent = sorted(set(expected) - {broker.node_id for broker in brokers})
    unready = [f"broker {broker.node_id}: {broker.not_ready}" for broker in brokers if broker.not_ready]
    return [f"broker {number} is down" for number in silent] + unready


def _partitions(samples: Sequence[Sample]) -> list[PartitionSample]:
    """One row per partition: what its leader says, and of all its replicas together what each counts for itself."""
    rows: dict[tuple[str, int], PartitionSample] = {}
    for sample in samples:
        for row in sample.partitions:
            known = rows.get(row[:2])
            if known is None:
                rows[row[:2]] = row
            else:
                rows[row[:2]] = _sum(*((row, known) if row.leader == sample.broker.node_id else (known, row)))
    return list(rows.values())


def _requests(counted: Sequence[Mapping[str, Sequence[int]]]) -> dict[str, list[int]]:
    added: dict[str, list[int]] = {}
    for requests in counted:
        for request, buckets in requests.items():
            so_far = added.get(request, [0] * len(buckets))
            added[request] = [one + other for one, other in zip(so_far, buckets, strict=True)]
    return added


def _sum(leader: PartitionSample, other: PartitionSample) -> PartitionSample:
    fields: list[Any] = list(leader)
    fields[SUMMED:] = [one + more for one, more in zip(fields[SUMMED:], list[Any](other)[SUMMED:], strict=True)]
    return PartitionSample._make(fields)
