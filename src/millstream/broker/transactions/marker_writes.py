"""Writing the markers that end transactions to the partitions that this broker leads.

The coordinator sends them as WriteTxnMarkers; that of the own broker calls `MarkerWrites.write` without a socket. Either way the result of
a partition is known when its marker is committed (acks=all), or cannot be written, or the time is up: then it may still be committed, and
the coordinator sends it again, which does no harm.

Markers are appended partition by partition, in the order in which they were given, some in each turn of the event loop: there may be
thousands. Nothing runs while they wait to be committed: one callback per partition.

A marker in a partition of `__consumer_offsets` decides about offsets that were committed in the transaction. The group coordinator has to
be ready for it (`OffsetMarkers.prepare`), and learns of it as soon as it stands in the log (`marker_appended`), as it does of its own
records; what it answers to clients waits until the log is committed that far.
"""

from collections import deque
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import Final, NamedTuple, Protocol

from millstream.broker.deadlines import Deadline, Deadlines
from millstream.broker.failures import as_kafka_error
from millstream.broker.storage.loop_turns import LoopTurns
from millstream.clock import Clock
from millstream.cluster.leader import ACKS_ALL
from millstream.cluster.partition import Partition
from millstream.cluster.replicas import Replicas
from millstream.cluster.topic_access import Operation, check_mirrored
from millstream.coordination.topic_names import OFFSETS_TOPIC
from millstream.errors import (
    CoordinatorLoadInProgress,
    CoordinatorNotAvailable,
    InvalidProducerEpoch,
    KafkaError,
    NotCoordinator,
    NotLeaderOrFollower,
    RequestTimedOut,
)
from millstream.log.transactions.marker import Marker
from millstream.topic_partition import TopicPartition
from millstream.wire.records import ProducerStamp

APPENDS_PER_TURN: Final = 64
"""How many markers are appended in one turn of the loop; each is a write of its own."""


class ProducerMarkers(NamedTuple):
    """The end of the transaction of one producer, for some of its partitions."""

    producer_id: int
    producer_epoch: int
    coordinator_epoch: int
    is_commit: bool
    transaction_version: int
    partitions: Sequence[TopicPartition]


MarkerResults = list[dict[TopicPartition, KafkaError | None]]
"""For each `ProducerMarkers`, in their order: per partition None if it has the marker, committed, and otherwise why not."""


_Place = tuple[TopicPartition, int]
"""A partition, and the number of the `ProducerMarkers` whose marker it is to have."""


class OffsetMarkers(Protocol):
    """What the group coordinator does about markers in the partitions of `__consumer_offsets`."""

    def prepare(self, partition: Partition) -> None:
        """Write what was decided and is not written yet. Raises (a coordinator's error) if a marker must not be appended now."""

    def marker_appended(self, partition: Partition, markers: ProducerMarkers, *, next_offset: int) -> None:
        """The offsets that the producer has pending count, or are forgotten; `next_offset` is the one behind the marker."""


class MarkerWrites:
    """Appends markers on this broker."""

    def __init__(self, replicas: Replicas, clock: Clock, *, offsets: OffsetMarkers | None = None) -> None:
        self._replicas = replicas
        self._clock = clock
        self._offsets = offsets
        self._turns = LoopTurns()
        self._deadlines = Deadlines()

    def write(self, markers: Sequence[ProducerMarkers], *, timeout_ms: int, done: Callable[[MarkerResults], None]) -> None:
        """Append the markers; `done` is called once, possibly at once, when the result of every partition is known."""
        write = _MarkerWrite(markers, self._append, done)
        if not write.step():
            self._turns.share(write.step)
        if not write.is_done:
            write.deadline = self._deadlines.add(timeout_ms / 1000, write.time_is_up)

    def _append(self, name: TopicPartition, markers: ProducerMarkers) -> tuple[Partition, int]:
        """Append a marker; its partition, and the offset behind it, which is 0 where none is needed."""
        if markers.producer_id < 0 or markers.producer_epoch < 0:
            raise InvalidProducerEpoch(f"a marker cannot be of producer {markers.producer_id} in epoch {markers.producer_epoch}")
        partition = self._replicas.partition(*name)
        leader = partition.as_leader()
        if partition.log.is_mirrored:
            # Mostly it was made again under its name, and has nothing to end. But an own topic may have become a mirror: until it is none
            # any more the transaction has to wait, or nobody would ever end it there.
            if any(leader.has_open_transaction(markers.producer_id, markers.producer_epoch - since) for since in (0, 1)):
                check_mirrored(Operation.WRITE, partition.topic, partition.log.config.mirror_source)
            return partition, 0
        offsets = self._offsets if partition.topic == OFFSETS_TOPIC else None
        if offsets is not None:
            try:
                offsets.prepare(partition)
            except (CoordinatorLoadInProgress, CoordinatorNotAvailable, NotCoordinator) as error:
                # As in Kafka: the coordinator of the transaction knows only leaders, and tries again.
                raise NotLeaderOrFollower(str(error)) from None
        marker = Marker(markers.is_commit, markers.coordinator_epoch)
        producer = ProducerStamp(markers.producer_id, markers.producer_epoch)
        version, now_ms = markers.transaction_version, self._clock.now_ms()
        next_offset = leader.append_marker(marker, producer, transaction_version=version, now_ms=now_ms) + 1
        if offsets is not None:
            offsets.marker_appended(partition, markers, next_offset=next_offset)
        return partition, next_offset


class _MarkerWrite:
    """One call of `MarkerWrites.write` while it is under way."""

    def __init__(
        self,
        markers: Sequence[ProducerMarkers],
        append: Callable[[TopicPartition, ProducerMarkers], tuple[Partition, int]],
        done: Callable[[MarkerResults], None],
    ) -> None:
        self.is_done = False
        self.deadline: Deadline | None = None
        self._markers = markers
        self._append = append
        self._done = done
        self._results: MarkerResults = [{} for _ in markers]
        by_partition: dict[TopicPartition, list[int]] = {}
        for number, one in enumerate(markers):
            for name in dict.fromkeys(one.partitions):
                by_partition.setdefault(name, []).append(number)
        self._left = deque((name, number) for name, numbers in by_partition.items() for number in numbers)
        """Partitions, and the numbers of markers that are to be appended to them."""
        self._waiting: dict[object, tuple[Partition, list[_Place]]] = {}
        """What is appended and not committed, by the tokens of the waits."""

    def step(self) -> bool:
        """Append some markers; whether they were the last."""
        appended: dict[Partition, tuple[int, list[_Place]]] = {}
        for _ in range(min(APPENDS_PER_TURN, len(self._left))):
            name, number = place = self._left.popleft()
            try:
                partition, next_offset = self._append(name, self._markers[number])
            except Exception as error:
                self._results[number][name] = as_kafka_error(error)
                continue
            places = appended[partition][1] if partition in appended else []
            places.append(place)
            appended[partition] = (next_offset, places)
        for partition, (next_offset, places) in appended.items():
            if partition.high_watermark.value >= next_offset:
                self._settle(places, partition.why_not_acknowledged(ACKS_ALL))
            else:
                token = object()
                self._waiting[token] = (partition, places)
                partition.high_watermark.wait_for(next_offset, partial(self._reached, token), token=token)
        self._finish_if_done()
        return not self._left

    def time_is_up(self) -> None:
        """What is not committed by now is answered as such."""
        timed_out = RequestTimedOut("the marker was not committed in time; it may still be")
        self._settle(self._left, timed_out)
        self._left.clear()
        waiting, self._waiting = self._waiting, {}
        for token, (partition, places) in waiting.items():
            partition.high_watermark.cancel(token)
            self._settle(places, timed_out)
        self._finish_if_done()

    def _reached(self, token: object, error: KafkaError | None) -> None:
        partition, places = self._waiting.pop(token)
        self._settle(places, error or partition.why_not_acknowledged(ACKS_ALL))
        self._finish_if_done()

    def _settle(self, places: Iterable[_Place], result: KafkaError | None) -> None:
        for name, number in places:
            self._results[number][name] = result

    def _finish_if_done(self) -> None:
        if self.is_done or self._left or self._waiting:
            return
        self.is_done = True
        if self.deadline is not None:
            self.deadline.cancel()
        self._done(self._results)
