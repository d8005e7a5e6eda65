"""Delivers the markers of ended transactions to the leaders of their partitions, until every partition has its own or is gone.

One sender per broker, however many transactions: each leader gets the markers of many of them in one WriteTxnMarkers. One request per
broker is under way at a time, what comes meanwhile waits for its answer; partitions that this broker leads are written without a socket
(`MarkerWrites`).

    undelivered ──► by leader ──► answered ──► marked ──► transaction complete
         ▲                           │
         └── after a pause, or with the next view: the leader is another one, away, or cannot write now

Nothing is kept on disk: the decision is in the log of the coordinator, and whoever loads it sends all markers again. A partition takes the
same marker twice without harm.
"""

import asyncio
import logging
from collections.abc import Iterable, Iterator
from functools import partial
from typing import TYPE_CHECKING, Any, Final, Protocol

from millstream.broker.cluster.peers import Peers, ViewOf
from millstream.broker.tasks import Spawn
from millstream.broker.transactions.marker_writes import MarkerResults, MarkerWrites, ProducerMarkers
from millstream.client.codecs.request import MessageRequest
from millstream.client.errors import kafka_error
from millstream.coordination.cluster_view import ClusterView
from millstream.errors import InvalidProducerEpoch, MillstreamError
from millstream.topic_partition import TopicPartition, by_topic
from millstream.transaction_errors import TransactionCoordinatorFenced
from millstream.transactions.shard import MarkerBatch
from millstream.wire.api import ApiKey

if TYPE_CHECKING:
    from millstream.wire.responses.write_txn_markers import WriteTxnMarkersResponse

logger = logging.getLogger(__name__)

TIMEOUT_S: Final = 30.0
"""How long a leader may take until its markers are replicated; Kafka's request.timeout.ms."""
MARKERS_PER_TURN: Final = 100
"""How many partitions are given to their leaders, or written here, before others have a turn of the loop; but always a whole transaction,
whose markers `MarkerWrites` spreads over turns itself."""
MARKERS_PER_REQUEST: Final = 2_000
_FIRST_PAUSE_S: Final = 0.02
_LONGEST_PAUSE_S: Final = 1.0

Partitions = set[TopicPartition]


class UnmarkedTransaction(Protocol):
    """A transaction whose end is decided, and whose partitions need their markers."""

    @property
    def markers(self) -> MarkerBatch:
        """What is to be written, and where."""

    @property
    def is_wanted(self) -> bool:
        """Whether they are still to be sent."""

    @property
    def is_marked(self) -> bool:
        """Whether no partition needs one any more."""

    def marked(self, partitions: Iterable[TopicPartition]) -> None:
        """These partitions have their marker, or are gone."""

    def fenced(self) -> None:
        """A partition has seen a later coordinator, which does the rest."""

    def complete(self) -> bool:
        """Have the end of the transaction written down; False if that has to wait."""


Deliveries = dict[UnmarkedTransaction, Partitions]


class MarkerSender:
    """All markers that this broker's coordinators have to send."""

    def __init__(self, *, node_id: int, view: ViewOf, peers: Peers, writes: MarkerWrites, spawn: Spawn) -> None:
        """`view` is the newest there is: a topic that is not in it is gone."""
        self._node_id = node_id
        self._view = view
        self._peers = peers
        self._writes = writes
        self._spawn = spawn
        self._undelivered: Deliveries = {}
        self._by_leader: dict[int, Deliveries] = {}
        self._departures: dict[int, asyncio.Future[None]] = {}
        """The brokers that are being asked, each with what is resolved when it is not there any more."""
        self._delayed: Deliveries = {}
        """What could not be delivered, or, without partitions, not be written down."""
        self._stuck: set[UnmarkedTransaction] = set()
        """Transactions that were delayed and are not complete yet."""
        self._trouble = ""
        """Why the last of them was delayed."""
        self._is_reported = False
        self._pause_s = _FIRST_PAUSE_S
        self._timer: asyncio.TimerHandle | None = None
        self._is_scheduled = False

    def __len__(self) -> int:
        """How many transactions are stuck: leaders could not be reached, or could not write, and are tried again."""
        return len(self._stuck)

    def send(self, transactions: Iterable[UnmarkedTransaction]) -> None:
        """Deliver the markers of transactions, and then complete them.

        What this broker leads is written before it returns: so the next request of a client, which has its answer by now, seldom comes
        too early for the next transaction.
        """
        for decided in transactions:
            self._undelivered.setdefault(decided, set()).update(decided.markers.partitions)
        if not self._is_scheduled:
            self._distribute()

    def view_changed(self) -> None:
        """Leaders may be others, and topics gone: look at once."""
        registered = self._view().brokers
        for node_id, departure in self._departures.items():
            if node_id not in registered and not departure.done():
                departure.set_result(None)
        self._stuck = {decided for decided in self._stuck if decided.is_wanted}
        if self._delayed:
            self._retry()

    def close(self) -> None:
        """The broker stops: whatever is not delivered is delivered by the next coordinator."""
        self._undelivered = {}
        self._delayed = {}
        self._stuck = set()
        self._by_leader = {}
        self._cancel_timer()
        self._peers.close()

    # --- who gets what

    def _add(self, decided: UnmarkedTransaction, partitions: Iterable[TopicPartition]) -> None:
        self._undelivered.setdefault(decided, set()).update(partitions)
        if not self._is_scheduled:
            self._is_scheduled = True
            asyncio.get_running_loop().call_soon(self._distribute)

    def _distribute(self) -> None:
        """Give what is to be delivered to those who lead the partitions, as much as one turn of the loop may."""
        self._is_scheduled = False
        view, count = self._view(), 0
        while self._undelivered and count < MARKERS_PER_TURN:
            decided = next(iter(self._undelivered))
            partitions = self._undelivered.pop(decided)
            count += len(partitions) + 1
            if decided.is_wanted:
                self._distribute_one(decided, partitions, view)
        if self._undelivered:
            self._is_scheduled = True
            asyncio.get_running_loop().call_soon(self._distribute)
        for node_id in list(self._by_leader):
            if node_id == self._node_id:
                self._write_here(self._by_leader.pop(node_id))
            elif node_id not in self._departures:
                self._departures[node_id] = asyncio.get_running_loop().create_future()
                self._spawn(self._deliver(node_id))

    def _distribute_one(self, decided: UnmarkedTransaction, partitions: Partitions, view: ClusterView) -> None:
        """A topic whose znode makes no sense is not gone: its log is there, with what is open in it."""
        gone = set()
        for one in partitions:
            topic = view.topics.get(one.topic)
            if topic is None and one.topic in view.unreadable_topics:
                self._trouble = f"nothing is known of {one}: the znode of its topic makes no sense"
                self._delay(decided, {one})
                continue
            if topic is None or one.partition >= len(topic.partitions):
                gone.add(one)
                continue
            leader = topic.partitions[one.partition].leader
            if leader in view.brokers:
                self._by_leader.setdefault(leader, {}).setdefault(decided, set()).add(one)
            else:
                self._trouble = f"{one} has no leader"
                self._delay(decided, {one})
        if gone or not partitions:
            self._marked(decided, gone)

    # --- delivery

    def _write_here(self, deliveries: Deliveries) -> None:
        """Each transaction by itself: one does not wait for the replicas of another's partitions."""
        for decided, partitions in deliveries.items():
            done = partial(self._answered, {decided: partitions})
            self._writes.write([_producer_markers(decided, partitions)], timeout_ms=int(TIMEOUT_S * 1000), done=done)

    async def _deliver(self, node_id: int) -> None:
        """Send to one broker what there is for it, one request after the other."""
        try:
            while deliveries := self._by_leader.pop(node_id, {}):
                for portion in _portions(deliveries):
                    await self._deliver_portion(node_id, portion)
        finally:
            del self._departures[node_id]

    async def _deliver_portion(self, node_id: int, portion: Deliveries) -> None:
        portion = {decided: partitions for decided, partitions in portion.items() if decided.is_wanted}
        if not portion:
            return
        request: MessageRequest[WriteTxnMarkersResponse] = MessageRequest(
            ApiKey.WRITE_TXN_MARKERS, {"markers": [_marker_fields(*one) for one in portion.items()]}
        )
        asking = asyncio.ensure_future(self._peers.ask(node_id, request, timeout_s=TIMEOUT_S))
        try:
            # A broker that was cut off or paused may never answer; others lead by the time it is registered no longer.
            either: set[asyncio.Future[Any]] = {asking, self._departures[node_id]}
            await asyncio.wait(either, return_when=asyncio.FIRST_COMPLETED)
            results = _results(portion, asking.result()) if asking.done() else None
        except MillstreamError as error:
            self._trouble, results = str(error), None
        finally:
            asking.cancel()
        if results is not None:
            self._answered(portion, results)
            return
        for decided, partitions in portion.items():
            self._delay(decided, partitions)

    def _answered(self, portion: Deliveries, results: MarkerResults) -> None:
        """What became of the markers at one leader."""
        for decided, errors in zip(portion, results, strict=True):
            marked = set()
            for one, error in errors.items():
                if error is None:
                    marked.add(one)
                elif error.code == InvalidProducerEpoch.code:
                    # The transaction was ended there by hand (an admin's WriteTxnMarkers): the log knows a later epoch of the producer.
                    logger.warning("%s-%d has no use for a marker of %r: %s", *one, decided.markers.transactional_id, error)
                    marked.add(one)
                elif error.code == TransactionCoordinatorFenced.code:
                    logger.info("the markers of %r are sent by another coordinator: %s", decided.markers.transactional_id, error)
                    decided.fenced()
                else:
                    self._trouble = f"{one}: {error}"
                    self._delay(decided, {one})
            if marked:
                self._marked(decided, marked)

    def _marked(self, decided: UnmarkedTransaction, partitions: Partitions) -> None:
        decided.marked(partitions)
        if not decided.is_marked:
            return
        if not decided.complete():
            self._trouble = "the log of the coordinator has too few replicas in sync"
            self._delay(decided, set())
        elif decided in self._stuck:
            self._stuck.discard(decided)
            self._pause_s = _FIRST_PAUSE_S
            if self._is_reported and not self._stuck:
                self._is_reported = False
                logger.info("all markers of ended transactions are written")

    # --- again

    def _delay(self, decided: UnmarkedTransaction, partitions: Partitions) -> None:
        self._delayed.setdefault(decided, set()).update(partitions)
        self._stuck.add(decided)
        if self._timer is None:
            self._timer = asyncio.get_running_loop().call_later(self._pause_s, self._retry)
            self._pause_s = min(2 * self._pause_s, _LONGEST_PAUSE_S)

    def _retry(self) -> None:
        self._cancel_timer()
        delayed = {decided: partitions for decided, partitions in self._delayed.items() if decided.is_wanted}
        self._delayed = {}
        self._stuck = {decided for decided in self._stuck if decided.is_wanted}
        if self._pause_s == _LONGEST_PAUSE_S and delayed and not self._is_reported:
            self._is_reported = True
            logger.warning("the markers of %d ended transactions cannot be written yet: %s", len(self._stuck), self._trouble)
        for decided, partitions in delayed.items():
            self._add(decided, partitions)

    def _cancel_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None


def _portions(deliveries: Deliveries) -> Iterator[Deliveries]:
    """What one request may carry; a producer stands in it once, because answers are found by it."""
    portion: Deliveries = {}
    producers: set[int] = set()
    count = 0
    for decided, some in _pieces(deliveries):
        producer_id = decided.markers.producer.producer_id
        if portion and (count + len(some) > MARKERS_PER_REQUEST or producer_id in producers):
            yield portion
            portion, producers, count = {}, set(), 0
        portion[decided] = some
        producers.add(producer_id)
        count += len(some)
    if portion:
        yield portion


def _pieces(deliveries: Deliveries) -> Iterator[tuple[UnmarkedTransaction, Partitions]]:
    """Each transaction, in several pieces if it has more partitions than one request may carry."""
    for decided, partitions in deliveries.items():
        if len(partitions) <= MARKERS_PER_REQUEST:
            yield decided, partitions
            continue
        ordered = sorted(partitions)
        for first in range(0, len(ordered), MARKERS_PER_REQUEST):
            yield decided, set(ordered[first : first + MARKERS_PER_REQUEST])


def _producer_markers(decided: UnmarkedTransaction, partitions: Partitions) -> ProducerMarkers:
    markers = decided.markers
    producer_id, epoch = markers.producer
    return ProducerMarkers(
        producer_id, epoch, markers.coordinator_epoch, markers.is_commit, markers.transaction_version, tuple(sorted(partitions))
    )


def _marker_fields(decided: UnmarkedTransaction, partitions: Partitions) -> dict[str, object]:
    markers = decided.markers
    return {
        "producer_id": markers.producer.producer_id,
        "producer_epoch": markers.producer.epoch,
        "transaction_result": markers.is_commit,
        "topics": [{"name": topic, "partition_indexes": indexes} for topic, indexes in by_topic(partitions).items()],
        "coordinator_epoch": markers.coordinator_epoch,
        "transaction_version": markers.transaction_version,
    }


def _results(portion: Deliveries, answer: "WriteTxnMarkersResponse") -> MarkerResults:
    """What a broker answered, as `MarkerWrites` says it; what it left out was not written."""
    codes = {
        (marker.producer_id, topic.name, one.partition_index): one.error_code
        for marker in answer.markers
        for topic in marker.topics
        for one in topic.partitions
    }
    results: MarkerResults = []
    for decided, partitions in portion.items():
        producer_id = decided.markers.producer.producer_id
        errors = {one: codes.get((producer_id, one.topic, one.partition), -1) for one in partitions}
        results.append({one: kafka_error(code, "the leader refused the marker") if code else None for one, code in errors.items()})
    return results
