"""What the broker does not know by itself: where partitions end that others lead, and when a record was written.

Asked by Kafka's protocol, within a few seconds. An error belongs to its partition: what cannot be answered is left out, and asked again
with the next sample.
"""

from collections.abc import Iterable, Mapping
from time import monotonic
from typing import Final

from millstream.client.cluster import Cluster
from millstream.client.codecs.fetch import READ_UNCOMMITTED, FetchFrom
from millstream.client.codecs.list_offsets import list_offsets_request, read_list_offsets
from millstream.client.codecs.metadata import NO_LEADER
from millstream.client.portions import portions
from millstream.errors import MillstreamError
from millstream.offset import LATEST
from millstream.topic_partition import TopicPartition
from millstream.wire.batch import HEADER_SIZE, LOG_APPEND_TIME, read_header

TIMEOUT_S: Final = 3.0
PARTITIONS_PER_REQUEST: Final = 500
"""A broker answers a request in one turn of its loop."""
CLIENT_ID: Final = "millstream-metrics"


class ClusterReader:
    """Connections to the brokers of the cluster, opened when something has to be asked."""

    def __init__(self, brokers: str) -> None:
        self._cluster = Cluster(brokers, client_id=CLIENT_ID, timeout_s=TIMEOUT_S)

    def ends(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
        """Where partitions end, as far as their leaders answer."""
        ends: dict[TopicPartition, int] = {}
        failed: set[str] = set()
        until = monotonic() + TIMEOUT_S
        for leader, wanted in self._by_leader(list(partitions), failed).items():
            for some in portions(wanted, PARTITIONS_PER_REQUEST):
                if monotonic() > until:
                    break
                request = list_offsets_request(dict.fromkeys(some, LATEST), isolation_level=READ_UNCOMMITTED)
                try:
                    answers = list(read_list_offsets(self._cluster.connection(leader).call(request)))
                except MillstreamError:
                    failed |= {partition.topic for partition in some}
                    break
                ends |= {partition: found.offset for partition, code, found in answers if not code}
                failed |= {partition.topic for partition, code, _ in answers if code}
        self._look_again(failed)
        return ends

    def timestamps(self, wanted: Mapping[TopicPartition, int]) -> dict[TopicPartition, float]:
        """When the batch with the record at an offset was written, in seconds since 1970; one fetch each."""
        found: dict[TopicPartition, float] = {}
        until = monotonic() + TIMEOUT_S
        for partition, offset in wanted.items():
            if monotonic() > until:
                break
            try:
                fetched = self._cluster.fetch(FetchFrom(*partition, offset, max_bytes=1), max_wait_ms=0)
            except MillstreamError:
                continue
            if len(fetched.records) >= HEADER_SIZE:
                header = read_header(fetched.records)
                timestamp = header.max_timestamp if header.attributes & LOG_APPEND_TIME else header.base_timestamp
                if timestamp >= 0:
                    found[partition] = timestamp / 1000
        return found

    def _by_leader(self, partitions: list[TopicPartition], failed: set[str]) -> dict[int, list[TopicPartition]]:
        """Which broker to ask for what, with at most one request for all that is not known."""
        self._look_again({partition.topic for partition in partitions} - self._cluster.metadata.topics.keys())
        topics = self._cluster.metadata.topics
        by_leader: dict[int, list[TopicPartition]] = {}
        for partition in partitions:
            known = topics[partition.topic].partitions.get(partition.partition) if partition.topic in topics else None
            if known is None or known.leader == NO_LEADER:
                failed.add(partition.topic)
            else:
                by_leader.setdefault(known.leader, []).append(partition)
        return by_leader

    def _look_again(self, topics: set[str]) -> None:
        """Ask who leads the partitions of these topics; those that were answered with an error are asked rightly with the next sample."""
        if topics:
            try:
                self._cluster.refresh(topics)
            except MillstreamError:
                return  # no broker answers now
