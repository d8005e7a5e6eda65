"""Fetch (1): read record batches.

Versions 4-18. 5: log start offset. 7: fetch sessions (KIP-227). 9: current leader epoch (KIP-320). 10: zstd. 11: rack (KIP-392).
12: flexible, diverging epoch (KIP-595). 13: topics by id (KIP-516). 15: the replica is a tagged field (KIP-903). 16: leader hints
(KIP-951).

The answer is made of file regions: record bytes do not pass through this process unless the answer is small. The first partition with
data gets its first batch, however large; after that only what fits into `max_bytes` is sent, and no region begins with half a batch.

Consumers may read from followers, from version 11 on (KIP-392): what the follower knows to be committed. A leader that is told the rack of
a consumer, and has an in-sync replica there (`rack_selector`), names that one in place of records, and the consumer goes there.

A fetch with a replica id comes from a follower: it is shown everything up to the log end and waits for that, and the leader learns that it
has all that comes before what it asks for. If it is not in sync, a throttled partition is left out of the answer while the quota for those
is used up (`replication_quotas`). It has to be a replica of the partition, and the broker of that number and epoch (from version
15 on) has to be registered. Anyone else is refused, as Kafka refuses replicas that it does not know.

Of an incremental session only what is named or has moved is read (`fetch_sessions`); the work does not grow with what is idle. What is
more than a few hundred partitions is read in several turns of the loop (`fetch_attempt`).

A fetch that finds less than `min_bytes` waits for partitions that move, without a task, until the client's deadline, and reads those again.
It does not wait for what would not fit: `min_bytes` above `max_bytes` means `max_bytes`, and what a partition could give counts even
where this answer has no room for it (both as in Kafka).
"""

from collections.abc import Callable, Collection, Iterable, Sequence
from typing import TYPE_CHECKING

from millstream.broker.deadlines import Deadlines
from millstream.broker.failures import as_kafka_error, is_unexpected
from millstream.broker.handlers.fetch.fetch_attempt import PARTITIONS_PER_TURN, FetchAttempt, FetchRound
from millstream.broker.handlers.fetch.fetch_sessions import FINAL_EPOCH, FetchSession, FetchSessions, Wanted, topic_key
from millstream.broker.handlers.leader_hints import LeaderHints
from millstream.broker.network.api import Request, api
from millstream.broker.network.connection import PendingReply
from millstream.broker.network.outbox import Chunk
from millstream.broker.network.region_loader import RegionLoader
from millstream.broker.network.request_times import FETCH, FOLLOWER_FETCH
from millstream.broker.network.session import Session
from millstream.broker.replication.replication_quotas import ReplicationQuotas
from millstream.broker.storage.loop_turns import LoopTurns
from millstream.clock import Clock
from millstream.cluster.partition import Partition
from millstream.cluster.readable_replica import READ_COMMITTED, ReadableReplica
from millstream.cluster.replicas import Replicas
from millstream.cluster.topic_access import Operation
from millstream.errors import (
    InvalidRequest,
    KafkaError,
    NotLeaderOrFollower,
    UnknownLeaderEpoch,
    UnknownTopicId,
    UnknownTopicOrPartition,
)
from millstream.log.region import FileRegion
from millstream.wire.api import ApiKey
from millstream.wire.fetch import FetchRequest, PartitionFetched, decode_request, encode_response

if TYPE_CHECKING:
    from millstream.broker.handlers.fetch.fetch_lane import RepeatedFetch


Role = Callable[..., ReadableReplica]
"""A method of `Partition` that gives its role to a reader: `as_leader` or `as_reader`."""


class FetchFamily:
    """Reads from the partitions of this broker."""

    def __init__(
        self,
        replicas: Replicas,
        *,
        sessions: FetchSessions,
        loader: RegionLoader,
        clock: Clock,
        max_bytes: int,
        near: Callable[[str], Collection[int]] = lambda _rack: (),
        quotas: ReplicationQuotas | None = None,
    ) -> None:
        """`near`: the brokers that consumers of a rack are better off with than with this one."""
        self._replicas = replicas
        self._near = near
        self._quotas = quotas or ReplicationQuotas(clock)
        self._sessions = sessions
        self._loader = loader
        self._clock = clock
        self._max_bytes = max_bytes
        self.turns = LoopTurns()
        self.hints = LeaderHints(replicas)
        self.deadlines = Deadlines()

    @api(ApiKey.FETCH, 4, 18)
    def fetch(self, request: Request) -> Sequence[Chunk] | None:
        """Read from each wanted partition, or wait until there is enough to read."""
        fetch = decode_request(request.frame, request.api_version, start=request.body_start)
        now_ms = self._clock.monotonic_ms()
        try:
            session = self._sessions.begin(fetch, version=request.api_version, now_ms=now_ms)
        except KafkaError as error:
            return encode_response(request.api_version, request.correlation_id, topics=[], error_code=error.code)
        if fetch.replica_id >= 0:
            request.timed_as = FOLLOWER_FETCH
        if self._is_registered(fetch):
            session.fetched_ms = now_ms
        elif fetch.replica_id >= 0:
            session.mark_all()
        attempt = FetchAttempt(self, request.session, fetch, session, version=request.api_version, correlation_id=request.correlation_id)
        due = session.due()
        if len(due) > PARTITIONS_PER_TURN:
            attempt.look_in_turns(due, request.defer())
            return None
        self.read(request.session, fetch, attempt.found, due, is_first_look=True)
        if fetch.max_wait_ms <= 0 or not len(session) or self.is_enough(request.session, fetch, attempt.found):
            chunks = attempt.compose()
            # A follower that is far behind has no hurry: it waits for a thread, so that nobody here waits for a disk (`page_cache`).
            if (fetch.replica_id < 0 or self._loader.is_recent(chunks)) and self._loader.load_warm(chunks):
                return chunks
            self._loader.load_cold(chunks, request.defer())
        else:
            attempt.wait(request.defer())
            self._open_lane(request, fetch, session)
        return None

    def _open_lane(self, request: Request, fetch: FetchRequest, session: FetchSession) -> None:
        """Let the requests that follow this one and look like it wait with less work, if it names one partition and is not the first."""
        from millstream.broker.handlers.fetch.fetch_lane import FetchLane, RepeatedFetch  # a broker starts sooner without it
        from millstream.wire.fetch_shape import FetchShape

        shape = None
        if (session.is_incremental or fetch.session_epoch == FINAL_EPOCH) and not fetch.forgotten_topics and fetch.min_bytes > 0:
            shape = FetchShape.of(request.frame, request.api_version, fetch, body_start=request.body_start)
        if shape is None:
            return
        name, topic_id, [partition] = fetch.topics[0]
        wanted = session.get(topic_key(name, topic_id), partition.partition)
        if wanted is not None:
            common = fetch._replace(topics=[])
            repeated = RepeatedFetch(request.connection, request.session, request.api_version, common, session, wanted, _role(fetch))
            request.open_lane(FetchLane(shape, repeated, self._wait_at_end))

    def _wait_at_end(self, repeated: "RepeatedFetch", correlation_id: int, offset: int) -> bool:
        """Let a request wait that asks for what comes next; False, and nothing was done, if there may be something else to do."""
        connection, client, version, fetch, session, wanted, role = repeated
        if session.has_marked_beside(wanted):
            return False
        try:
            partition = self._looked_up(client, wanted)
            reader = role(partition, wanted.current_leader_epoch)
        except KafkaError:
            return False
        replica_id = fetch.replica_id
        is_replica = replica_id >= 0
        leader = partition.leading if is_replica else None
        if offset != reader.visible_end(fetch.isolation_level, is_replica=is_replica):
            return False
        if wanted.last_fetched_epoch >= 0 and wanted.last_fetched_epoch != reader.log.epochs.latest:
            return False
        if leader is not None and not (leader.replica_set.is_follower(replica_id) and self._is_registered(fetch)):
            return False
        if fetch.rack_id and partition.is_leader and self._near(fetch.rack_id):
            return False  # there may be a better replica for it by now
        now_ms = self._clock.monotonic_ms()
        self._sessions.go_on(session, now_ms=now_ms)
        if is_replica:
            session.fetched_ms = now_ms
        session.update_offset(wanted, offset)
        # First it waits, then it is counted: what is committed thereby may lead to an append, which has to find it waiting.
        attempt = FetchAttempt(self, client, fetch, session, version=version, correlation_id=correlation_id)
        attempt.wait_at_end(wanted, partition, connection.defer(FOLLOWER_FETCH if is_replica else FETCH))
        if leader is not None and wanted.current_leader_epoch >= 0:
            leader.replica_fetched(replica_id, fetch.replica_epoch, offset, wanted.log_start_offset, position=wanted)
        wanted.is_quiet = leader is None or leader.expects_nothing_of(replica_id)
        return True

    def read(self, client: Session, fetch: FetchRequest, found: FetchRound, due: Iterable[Wanted], *, is_first_look: bool = False) -> None:
        """Look at the partitions that are due, until `max_bytes` are found; at the first look a follower says what it has."""
        budget = min(fetch.max_bytes, self._max_bytes)
        is_replica = fetch.replica_id >= 0
        is_registered = is_replica and self._is_registered(fetch)
        role = _role(fetch)
        near = self._near(fetch.rack_id) if fetch.rack_id else ()
        quotas = self._quotas if is_replica and self._quotas.leader is not None else None
        for wanted in due:
            wanted.stir()
            known_bytes, size_bytes = found.size_bytes, found.size_without(wanted)
            room, is_first = budget - size_bytes, size_bytes == 0
            partition: Partition | None = None
            try:
                partition = self._looked_up(client, wanted)
                reader = role(partition, wanted.current_leader_epoch)
                if is_replica:
                    _check_replica(partition, fetch, wanted, is_registered=is_registered)
                    if quotas is not None:
                        allowed = quotas.room_for(partition, fetch.replica_id, room)
                        room, is_first = (0, False) if allowed is None else (allowed, is_first)
                answer = _sent_elsewhere(partition, wanted, near) if near else None
                if answer is None:
                    answer = _read_partition(partition, reader, wanted, fetch, room=room, is_first=is_first, is_counted=is_first_look)
                    if near:
                        wanted.is_quiet = False  # a replica there may come into sync at any time
            except Exception as error:
                refusal = as_kafka_error(error)
                if partition is not None and is_unexpected(refusal):
                    partition.failed_fetches += 1
                answer = _refused(wanted.index, refusal)
            found.take(wanted, answer, partition)
            if quotas is not None and partition is not None:
                quotas.sent(partition, found.size_bytes - known_bytes)

    def is_enough(self, client: Session, fetch: FetchRequest, found: FetchRound) -> bool:
        """Whether the answer may go out before the deadline."""
        min_bytes = min(fetch.min_bytes, fetch.max_bytes, self._max_bytes)
        if found.size_bytes >= min_bytes or found.is_urgent:
            return True
        # Nothing found means that nothing is there: whoever is first gets its batch whatever its size.
        return found.size_bytes > 0 and self._could_be_enough(client, fetch, found, min_bytes=min_bytes)

    def deliver(self, chunks: list[Chunk], pending: PendingReply) -> None:
        """Send a composed answer that had to wait."""
        if len(chunks) > PARTITIONS_PER_TURN:
            self.turns.share(self._loader.loading(chunks, pending, at_once=PARTITIONS_PER_TURN))
        elif self._loader.load_warm(chunks):
            pending.complete(chunks)
        else:
            self._loader.load_cold(chunks, pending)

    def _could_be_enough(self, client: Session, fetch: FetchRequest, found: FetchRound, *, min_bytes: int) -> bool:
        """Whether there is enough to read, though not for this answer; or a region ends with its segment, and cannot grow."""
        readable = 0
        for wanted in found.answers:
            if wanted.is_quiet:
                continue
            try:
                reader = _role(fetch)(self._looked_up(client, wanted))
                end = reader.visible_end(fetch.isolation_level, is_replica=fetch.replica_id >= 0)
                offset = wanted.fetch_offset
                own = reader.log.readable_bytes(offset, limit_offset=end) if offset < end else 0
            except KafkaError:
                return True  # It could be read just now: the next fetch will say what is wrong.
            if own is None:
                return True
            readable += min(own, wanted.max_bytes)
        return readable >= min_bytes

    def _looked_up(self, client: Session, wanted: Wanted) -> Partition:
        return self._replicas.partition_for(client, Operation.READ, wanted.topic, wanted.index)

    def _is_registered(self, fetch: FetchRequest) -> bool:
        """Whether the request comes from a broker in its present life."""
        broker = self._replicas.view.brokers.get(fetch.replica_id) if fetch.replica_id >= 0 else None
        return broker is not None and broker.epoch == fetch.replica_epoch


def _role(fetch: FetchRequest) -> Role:
    """In which roles a partition answers the request: followers, and consumers before version 11, read from leaders only."""
    return Partition.as_leader if fetch.replica_id >= 0 or fetch.rack_id is None else Partition.as_reader


def _check_replica(partition: Partition, fetch: FetchRequest, wanted: Wanted, *, is_registered: bool) -> None:
    """Raise unless the request comes from a follower in its present life; the partition is led here."""
    replica_id = fetch.replica_id
    if partition.leading is None or not partition.leading.replica_set.is_follower(replica_id):
        # Kafka's codes: whoever says an epoch may know more of the replicas than is known here, and asks again.
        error = UnknownLeaderEpoch if wanted.current_leader_epoch >= 0 else NotLeaderOrFollower
        raise error(f"broker {replica_id} does not follow {partition.log.topic_partition}")
    if not is_registered:
        raise NotLeaderOrFollower(f"no broker {replica_id} of the epoch {fetch.replica_epoch} is registered")


def _sent_elsewhere(partition: Partition, wanted: Wanted, near: Collection[int]) -> PartitionFetched[FileRegion] | None:
    """The answer to a consumer that is better off with another replica; None if it is not, or this broker does not lead."""
    leader = partition.leading
    preferred = None if leader is None else leader.replica_set.closest_reader(wanted.fetch_offset, near=near)
    return None if preferred is None else _empty(partition, wanted)._replace(preferred_read_replica=preferred)


def _empty(partition: Partition, wanted: Wanted) -> PartitionFetched[FileRegion]:
    """How far the log goes, without records."""
    return PartitionFetched(wanted.index, 0, partition.high_watermark.value, partition.last_stable_offset, partition.log.log_start_offset)


def _read_partition(
    partition: Partition, reader: ReadableReplica, wanted: Wanted, fetch: FetchRequest, *, room: int, is_first: bool, is_counted: bool
) -> PartitionFetched[FileRegion]:
    offset = wanted.fetch_offset
    is_replica = fetch.replica_id >= 0
    if wanted.last_fetched_epoch >= 0:
        diverging = reader.find_divergence(wanted.last_fetched_epoch, offset)
        if diverging is not None:
            return _empty(partition, wanted)._replace(diverging_epoch=diverging)
    end = reader.visible_end(fetch.isolation_level, is_replica=is_replica)
    if wanted.max_bytes < 0 and offset < end:
        raise InvalidRequest(f"at most {wanted.max_bytes} bytes of {partition.topic}-{partition.index}")
    region = reader.read(offset, end=end, max_bytes=min(room, wanted.max_bytes), min_one_batch=is_first, is_replica=is_replica)
    leader = partition.leading if is_replica else None
    if leader is not None and is_counted and wanted.current_leader_epoch >= 0:
        leader.replica_fetched(fetch.replica_id, fetch.replica_epoch, offset, wanted.log_start_offset, position=wanted)
    wanted.is_quiet = offset >= end and (leader is None or leader.expects_nothing_of(fetch.replica_id))
    aborted: Sequence[tuple[int, int]] | None = None
    if fetch.isolation_level == READ_COMMITTED and not is_replica:
        aborted = reader.aborted_in(offset, region) if region is not None and partition.log.local.has_aborted else ()
    return PartitionFetched(
        wanted.index,
        0,
        partition.high_watermark.value,
        partition.last_stable_offset,
        partition.log.log_start_offset,
        region,
        aborted,
    )


def _refused(index: int, error: KafkaError) -> PartitionFetched[FileRegion]:
    """As in Kafka no partition has an empty list of aborted transactions, and a partition with another error has none."""
    aborted = () if isinstance(error, UnknownTopicOrPartition | UnknownTopicId) else None
    return PartitionFetched(index, error.code, aborted_transactions=aborted)
