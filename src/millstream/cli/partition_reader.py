"""What confluent-kafka does not answer, or not quickly, asked by our own client: sizes, ends and times of many partitions of any Kafka.

At most 500 partitions go into one request, so that no other client waits long for its turn. An error belongs to its partition: what a
leader does not answer in time is left out, and shown as unknown. That a broker does not let us ask for sizes is no error either.
"""

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from time import monotonic
from typing import TYPE_CHECKING, Final, Self, TypeVar

from millstream.client.admin.log_dirs import log_dirs_request, read_sizes
from millstream.client.cluster import Cluster
from millstream.client.codecs.fetch import READ_UNCOMMITTED, FetchFrom
from millstream.client.codecs.list_offsets import OffsetAndTime, list_offsets_request, read_list_offsets
from millstream.client.codecs.metadata import NO_LEADER, ClusterMetadata
from millstream.client.codecs.request import MessageRequest, Request
from millstream.client.errors import SecurityOptionError
from millstream.client.portions import portions
from millstream.client.security.client_security import NO_SECURITY, ClientSecurity
from millstream.errors import MillstreamError
from millstream.topic_partition import TopicPartition
from millstream.wire.api import ApiKey
from millstream.wire.batch import split_batches
from millstream.wire.records import decode_records

if TYPE_CHECKING:
    from millstream.wire.responses.find_coordinator import FindCoordinatorResponse
    from millstream.wire.responses.offset_fetch import OffsetFetchResponse

T = TypeVar("T")

TIMEOUT_S: Final = 5.0
PARTITIONS_PER_REQUEST: Final = 500


class PartitionReader:
    """Connections to the brokers of a cluster, opened when something has to be asked."""

    def __init__(self, brokers: str, options: Mapping[str, str], *, timeout_s: float = TIMEOUT_S) -> None:
        self._timeout_s = timeout_s
        self._may_ask = True
        try:
            security = ClientSecurity.of(options)
        except SecurityOptionError:
            # Kerberos, for example: confluent-kafka can do it and we cannot, so nothing is known here.
            self._may_ask, security = False, NO_SECURITY
        self._cluster = Cluster(brokers, timeout_s=timeout_s, security=security)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._cluster.close()

    def metadata(self) -> ClusterMetadata:
        """Every broker and topic, asked anew; raises if no broker answers."""
        return self._cluster.refresh(None)

    def offsets(self, places: Iterable[TopicPartition], timestamp: int) -> dict[TopicPartition, OffsetAndTime]:
        """The first record of each partition at or after a time in ms, or at one of the words of `millstream.offset`."""
        answers = self._ask_leaders(
            places, lambda some: list_offsets_request(dict.fromkeys(some, timestamp), isolation_level=READ_UNCOMMITTED)
        )
        return {place: offset for answer in answers for place, code, offset in read_list_offsets(answer) if not code}

    def sizes(self, places: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
        """The bytes that the leader of each partition keeps on its disks."""
        return {place: size for answer in self._ask_leaders(places, log_dirs_request) for place, size in read_sizes(answer).items()}

    def timestamps(self, wanted: Collection[tuple[TopicPartition, int]]) -> dict[tuple[TopicPartition, int], int]:
        """The time, in ms, of the first record at or after an offset; one fetch each, as many as the time allows."""
        found: dict[tuple[TopicPartition, int], int] = {}
        until = monotonic() + self._timeout_s
        for place, offset in wanted:
            if monotonic() > until or not self._may_ask:
                break
            timestamp = self._timestamp(place, offset)
            if timestamp is not None and timestamp >= 0:
                found[place, offset] = timestamp
        return found

    def commit_metadata(self, group: str) -> dict[TopicPartition, str]:
        """What a group has committed beside its offsets; confluent-kafka 2.16 reads past the end of these texts."""
        if not self._may_ask:
            return {}
        wanted = {"key": group, "key_type": 0, "coordinator_keys": [group]}
        fields = {"groups": [{"group_id": group, "topics": None}], "require_stable": False}
        request: MessageRequest[OffsetFetchResponse] = MessageRequest(ApiKey.OFFSET_FETCH, fields, lowest=8, highest=9)
        try:
            coordinators: FindCoordinatorResponse = self._cluster.call(MessageRequest(ApiKey.FIND_COORDINATOR, wanted, lowest=4))
            answer = self._cluster.connection(coordinators.coordinators[0].node_id).call(request)
        except MillstreamError:
            return {}
        return {
            TopicPartition(topic.name, each.partition_index): each.metadata
            for found in answer.groups
            for topic in found.topics
            for each in topic.partitions
            if each.committed_offset >= 0 and each.metadata is not None
        }

    def _timestamp(self, place: TopicPartition, offset: int) -> int | None:
        try:
            fetched = self._cluster.fetch(FetchFrom(*place, offset, max_bytes=1), max_wait_ms=0)
            for header, batch in split_batches(fetched.records):
                for record in () if header.is_control else decode_records(batch):
                    if record.offset >= offset:
                        return record.timestamp
        except MillstreamError:
            return None
        return None

    def _ask_leaders(self, places: Iterable[TopicPartition], request_for: Callable[[list[TopicPartition]], Request[T]]) -> Iterator[T]:
        """What leaders answer within the time; one that fails is not asked for the rest."""
        until = monotonic() + self._timeout_s
        for leader, wanted in self._by_leader(places).items():
            for some in portions(wanted, PARTITIONS_PER_REQUEST):
                if monotonic() > until:
                    return
                try:
                    answer = self._cluster.connection(leader).call(request_for(some))
                except MillstreamError:
                    break
                yield answer

    def _by_leader(self, places: Iterable[TopicPartition]) -> dict[int, list[TopicPartition]]:
        wanted = list(places) if self._may_ask else []
        if {place.topic for place in wanted} - self._cluster.metadata.topics.keys():
            try:
                self._cluster.refresh(None)
            except MillstreamError:
                return {}
        topics = self._cluster.metadata.topics
        by_leader: dict[int, list[TopicPartition]] = {}
        for place in wanted:
            known = topics[place.topic].partitions.get(place.partition) if place.topic in topics else None
            if known is not None and known.leader != NO_LEADER:
                by_leader.setdefault(known.leader, []).append(place)
        return by_leader
