"""The brokers of a cluster behind their bootstrap addresses: who leads what, a connection to each, and raw record batches in and out.

    with Cluster("localhost:9092") as cluster:
        topic = cluster.topic("clicks")                                    # partitions, leaders, topic id; asked once, then remembered
        ends = cluster.offsets({TopicPartition("clicks", p): LATEST for p in topic.partitions})
        fetched = cluster.fetch(FetchFrom("clicks", 0, offset=0))           # batches as bytes: FetchedPartition.records
        cluster.produce(BatchFor("clicks", 0, batch))                       # a batch that is already encoded

        with cluster.connect(cluster.leader("clicks", 0)) as connection:    # several requests under way, see `client.connection`
            pending = [connection.send(FetchRequest([FetchFrom("clicks", 0, offset)])) for offset in (0, 5_000)]
            answers = [connection.receive(one) for one in pending]

`fetch`, `produce` and `offsets` find the leader again and try again while that can help (a leader that moved, a broker that restarts),
until `timeout_s` has passed; every other error is raised at once, as an exception of `millstream.errors`. Trying a produce again can write
it twice, unless the batch carries a producer id and sequence. A `Cluster` belongs to one thread.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace
from typing import Self, TypeVar

from millstream.address import Address, parse_bootstrap_servers
from millstream.client.codecs.fetch import READ_UNCOMMITTED, FetchedPartition, FetchFrom, FetchRequest
from millstream.client.codecs.list_offsets import OffsetAndTime, list_offsets_request, read_list_offsets
from millstream.client.codecs.metadata import NO_LEADER, ClusterMetadata, PartitionMetadata, TopicMetadata, metadata_request, read_metadata
from millstream.client.codecs.produce import ALL_REPLICAS, BatchFor, ProducedPartition, ProduceRequest
from millstream.client.codecs.request import Request
from millstream.client.connection import CLIENT_ID, TIMEOUT_S, Connection, OpenSocket, open_tcp
from millstream.client.errors import BrokerUnavailable, is_retriable, kafka_error
from millstream.client.retry import retry
from millstream.client.security.client_security import NO_SECURITY, ClientSecurity
from millstream.errors import KafkaError, LeaderNotAvailable, MillstreamError, OffsetOutOfRange, UnknownTopicOrPartition
from millstream.topic_partition import TopicPartition

T = TypeVar("T")


class Cluster:
    """A cluster, found through any of its brokers; nothing is connected before the first question."""

    def __init__(
        self,
        bootstrap_servers: str | Iterable[str],
        *,
        client_id: str = CLIENT_ID,
        timeout_s: float = TIMEOUT_S,
        security: ClientSecurity = NO_SECURITY,
        open_socket: OpenSocket = open_tcp,
    ) -> None:
        self._bootstrap = parse_bootstrap_servers(bootstrap_servers)
        self._client_id = client_id
        self._timeout_s = timeout_s
        self._security = security
        self._open_socket = open_socket
        self._metadata = ClusterMetadata()
        self._connections: dict[Address, Connection] = {}

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the connections that this object opened for itself; those of `connect` belong to whoever asked for them."""
        while self._connections:
            self._connections.popitem()[1].close()

    @property
    def metadata(self) -> ClusterMetadata:
        """What is remembered of the cluster."""
        return self._metadata

    def refresh(self, topics: Iterable[str] | None = None, *, create: bool = False) -> ClusterMetadata:
        """Ask any broker about these topics, or about all; what it says is remembered."""
        newer = read_metadata(self.call(metadata_request(topics, create=create)))
        self._metadata = self._metadata.updated(newer)
        return self._metadata

    def topic(self, name: str) -> TopicMetadata:
        """A topic that must exist; asked about unless it is remembered."""
        known = self._metadata.topics.get(name)
        if known is None or known.error_code:
            known = self.refresh([name]).topics.get(name)
        if known is None or known.error_code == UnknownTopicOrPartition.code:
            raise UnknownTopicOrPartition(f"there is no topic {name!r} at {self._where()}; create it first")
        known.check()
        return known

    def leader(self, topic: str, partition: int) -> int:
        """The id of the broker that leads the partition."""
        return self.led(topic, partition).leader

    def led(self, topic: str, partition: int) -> PartitionMetadata:
        """A partition that has a leader.

        A fetch that names its leader epoch is answered by that leader alone: a broker that has led it before, and follows now, would
        answer consumers that name none (KIP-392), however far behind it is.
        """
        found = self.topic(topic).partitions.get(partition)
        if found is None:
            self._forget([topic])
            raise UnknownTopicOrPartition(f"the topic {topic!r} has no partition {partition}")
        if found.leader == NO_LEADER:
            self._forget([topic])
            raise LeaderNotAvailable(f"partition {partition} of {topic!r} has no leader at the moment; are all brokers up?")
        return found

    def connect(self, broker_id: int) -> Connection:
        """A new connection to a broker, which belongs to the caller."""
        return self._open(self._address(broker_id))

    def connection(self, broker_id: int) -> Connection:
        """The connection of this object to a broker, opened again if it broke."""
        return self._connection(self._address(broker_id))

    def call(self, request: Request[T]) -> T:
        """Ask any broker: one that is connected, else the known ones, else the bootstrap addresses, until one answers."""
        reasons = []
        for address in self._candidates():
            try:
                return self._connection(address).call(request)
            except BrokerUnavailable as error:
                reasons.append(str(error))
        raise BrokerUnavailable("; ".join(reasons))

    def fetch(
        self, wanted: FetchFrom, *, max_wait_ms: int = 500, min_bytes: int = 1, isolation_level: int = READ_UNCOMMITTED
    ) -> FetchedPartition:
        """Pull once from one partition."""

        def attempt() -> FetchedPartition:
            led = self.led(wanted.topic, wanted.partition)
            connection = self.connection(led.leader)
            asked = wanted._replace(leader_epoch=led.leader_epoch)
            request = FetchRequest([asked], max_wait_ms, min_bytes, isolation_level=isolation_level)
            answer = connection.call(request, timeout_s=max_wait_ms / 1000 + self._timeout_s)
            _check(answer.error_code, "the broker refused a Fetch")
            _check(answer.partitions[0].error_code, _fetch_failed(wanted, answer.partitions[0].error_code))
            return answer.partitions[0]

        return self._retry([wanted.topic], attempt)

    def produce(self, batch: BatchFor, *, acks: int = ALL_REPLICAS, timeout_ms: int = 30_000) -> ProducedPartition | None:
        """Write one batch that is already encoded; None with acks=0, where nothing is answered."""
        request = ProduceRequest([batch], acks, timeout_ms)

        def attempt() -> ProducedPartition | None:
            connection = self.connection(self.leader(batch.topic, batch.partition))
            pending = connection.send(request)
            if not request.has_answer:
                return None
            produced = connection.receive(pending, timeout_s=timeout_ms / 1000 + self._timeout_s).partitions[0]
            _check(produced.error_code, produced.error_message or f"writing to {batch.topic}-{batch.partition} failed")
            return produced

        return self._retry([batch.topic], attempt)

    def offsets(
        self, wanted: Mapping[TopicPartition, int], *, isolation_level: int = READ_UNCOMMITTED
    ) -> dict[TopicPartition, OffsetAndTime]:
        """For many partitions the first record at or after a time in ms, or at `EARLIEST`, `LATEST` or `MAX_TIMESTAMP`."""
        found: dict[TopicPartition, OffsetAndTime] = {}

        def attempt() -> None:
            missing = {partition: time for partition, time in wanted.items() if partition not in found}
            by_leader: dict[int, dict[TopicPartition, int]] = {}
            for partition, time in missing.items():
                by_leader.setdefault(self.leader(*partition), {})[partition] = time
            for leader, group in by_leader.items():
                answer = self.connection(leader).call(list_offsets_request(group, isolation_level=isolation_level))
                for partition, error_code, offset in read_list_offsets(answer):
                    _check(error_code, f"asking for an offset of {partition} failed")
                    found[partition] = offset

        self._retry({partition.topic for partition in wanted}, attempt)
        return {partition: found[partition] for partition in wanted}

    def _retry(self, topics: Iterable[str], attempt: Callable[[], T]) -> T:
        def may_pass(error: MillstreamError) -> bool:
            if passes := isinstance(error, BrokerUnavailable | LeaderNotAvailable | _TryAgain):
                self._forget(topics)
            return passes

        try:
            return retry(attempt, timeout_s=self._timeout_s, may_pass=may_pass)
        except _TryAgain as again:
            raise again.error from None

    def _forget(self, topics: Iterable[str]) -> None:
        gone = set(topics)
        kept = {name: topic for name, topic in self._metadata.topics.items() if name not in gone}
        self._metadata = replace(self._metadata, topics=kept)

    def _address(self, broker_id: int) -> Address:
        address = self._metadata.brokers.get(broker_id)
        if address is None:
            address = self.refresh([]).brokers.get(broker_id)
        if address is None:
            raise BrokerUnavailable(f"broker {broker_id} is not up; the cluster at {self._where()} has {sorted(self._metadata.brokers)}")
        return address

    def _candidates(self) -> Iterator[Address]:
        connected = [address for address, connection in self._connections.items() if not connection.is_closed]
        # A connection that was idle for long may have been closed by its broker: then the same address is tried once more, afresh.
        return iter([*connected, *dict.fromkeys([*self._metadata.brokers.values(), *self._bootstrap])])

    def _connection(self, address: Address) -> Connection:
        connection = self._connections.get(address)
        if connection is None or connection.is_closed:
            connection = self._connections[address] = self._open(address)
        return connection

    def _open(self, address: Address) -> Connection:
        return Connection(
            address, client_id=self._client_id, timeout_s=self._timeout_s, security=self._security, open_socket=self._open_socket
        )

    def _where(self) -> str:
        return ",".join(map(str, self._bootstrap))


class _TryAgain(MillstreamError):
    """The broker answered with an error that another attempt may cure."""

    def __init__(self, error: KafkaError) -> None:
        super().__init__(str(error))
        self.error = error


def _fetch_failed(wanted: FetchFrom, error_code: int) -> str:
    place = TopicPartition(wanted.topic, wanted.partition)
    if error_code == OffsetOutOfRange.code:
        return f"there is no offset {wanted.offset} in {place}: ask for its earliest and its latest offset to see which there are"
    return f"fetching offset {wanted.offset} of {place} failed"


def _check(error_code: int, what: str) -> None:
    if error_code:
        error = kafka_error(error_code, what)
        raise _TryAgain(error) if is_retriable(error_code) else error
