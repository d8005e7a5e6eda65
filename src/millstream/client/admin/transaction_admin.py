"""Transactions from outside: which there are, who has what open where, and ending one by force. Of any Kafka from 3.0 on.

    admin = TransactionAdmin(cluster, timeout_s=30)
    admin.all()                                           # every transactional id that a coordinator knows
    admin.open_on([TopicPartition("clicks", 0)])          # what the logs say is open, whether or not a coordinator knows of it
    admin.fence(admin.named(["copier"])["copier"])        # abort by the coordinator; its producer can write no more
    admin.write_abort_marker(found)                       # for what no coordinator will ever end

What a coordinator and a log say may differ for a moment while a transaction ends, and for ever if it hangs (KIP-664).
"""

from collections.abc import Callable, Collection, Iterable, Iterator
from typing import Any, Final, NamedTuple, TypeVar

from millstream.client.cluster import Cluster
from millstream.client.codecs.request import MessageRequest
from millstream.client.coordinators import TRANSACTION, Coordinators
from millstream.client.errors import kafka_error
from millstream.client.portions import portions
from millstream.client.retry import retry
from millstream.client.transactions import Transactions
from millstream.topic_partition import TopicPartition, by_topic
from millstream.transaction_errors import TransactionalIdNotFound
from millstream.wire.api import ApiKey

T = TypeVar("T")

ONGOING: Final = "Ongoing"
_AT_ONCE: Final = 500
_FENCING_TIMEOUT_MS: Final = 1_000
"""Of a transaction that nobody begins. Not that of the fenced one, which brokers may not allow any more (`transaction.max.timeout.ms`)."""
_LAST_WITHOUT_VERSION: Final = 1
"""From version 2 on WriteTxnMarkers says which protocol the transaction has, which only its coordinator knows."""


class KnownTransaction(NamedTuple):
    """What a coordinator says of a transactional id; `start_ms` is -1 if no transaction is under way."""

    transactional_id: str
    state: str
    coordinator: int
    producer_id: int
    epoch: int
    timeout_ms: int
    start_ms: int
    partitions: tuple[TopicPartition, ...]

    @property
    def is_open(self) -> bool:
        """Whether it is neither committed nor aborted."""
        return self.state == ONGOING

    def open_ms(self, now_ms: int) -> int | None:
        """For how long it has been under way; None if it is not."""
        is_under_way = self.is_open or self.state.startswith("Prepare")
        return max(now_ms - self.start_ms, 0) if is_under_way and self.start_ms >= 0 else None


class OpenInLog(NamedTuple):
    """A transaction that is open in a partition, as its log says."""

    place: TopicPartition
    producer_id: int
    epoch: int
    coordinator_epoch: int
    start_offset: int
    last_timestamp_ms: int


class TransactionAdmin:
    """Asks the brokers of a cluster about transactions; for one thread."""

    def __init__(self, cluster: Cluster, *, timeout_s: float) -> None:
        self._cluster = cluster
        self._timeout_s = timeout_s
        self._coordinators = Coordinators(cluster, TRANSACTION, timeout_s=timeout_s)

    def all(self) -> list[KnownTransaction]:
        """Every transactional id of the cluster."""
        return self._retry(lambda: list(self._listed(())))

    def named(self, transactional_ids: Collection[str]) -> dict[str, KnownTransaction]:
        """Those of these ids that exist."""

        def attempt() -> dict[str, KnownTransaction]:
            by_broker: dict[int, list[str]] = {}
            for name, broker in self._coordinators.find(transactional_ids).items():
                by_broker.setdefault(broker, []).append(name)
            # Unless all of them answer, they are looked for again.
            self._coordinators.forget(transactional_ids)
            found = {one.transactional_id: one for broker, names in by_broker.items() for one in self._described(broker, names)}
            for broker, names in by_broker.items():
                self._coordinators.remember(names, broker)
            return found

        return self._retry(attempt)

    def open_ids(self) -> set[str]:
        """The transactional ids with a transaction under way."""
        return self._retry(lambda: {name for _, names in self._names(states=[ONGOING]) for name in names})

    def of_producers(self, producer_ids: Collection[int]) -> dict[int, KnownTransaction]:
        """The transactional ids that these producer ids belong to, where a coordinator knows."""
        return self._retry(lambda: {one.producer_id: one for one in self._listed(producer_ids)}) if producer_ids else {}

    def open_on(self, places: Iterable[TopicPartition]) -> list[OpenInLog]:
        """What is open in these partitions, asked of their leaders."""
        wanted = list(places)

        def attempt() -> list[OpenInLog]:
            self._cluster.refresh({place.topic for place in wanted})
            by_leader: dict[int, list[TopicPartition]] = {}
            for place in wanted:
                by_leader.setdefault(self._cluster.leader(*place), []).append(place)
            return [
                found for leader, some in by_leader.items() for part in portions(some, _AT_ONCE) for found in self._open_at(leader, part)
            ]

        return self._retry(attempt)

    def fence(self, transaction: KnownTransaction) -> None:
        """Let the coordinator abort what is open under the id, and refuse whatever its producer sends from now on."""
        timeout_ms = min(transaction.timeout_ms, _FENCING_TIMEOUT_MS)
        Transactions(self._cluster, timeout_s=self._timeout_s).begin(transaction.transactional_id, timeout_ms=timeout_ms)

    def write_abort_marker(self, found: OpenInLog) -> None:
        """End a transaction in one partition, without its coordinator."""
        topic, partition = found.place
        marker = {
            "producer_id": found.producer_id,
            "producer_epoch": found.epoch,
            "transaction_result": False,
            "topics": [{"name": topic, "partition_indexes": [partition]}],
            # None is -1 in a log that no marker of this producer has reached yet.
            "coordinator_epoch": max(found.coordinator_epoch, 0),
        }
        request: MessageRequest[Any] = MessageRequest(ApiKey.WRITE_TXN_MARKERS, {"markers": [marker]}, highest=_LAST_WITHOUT_VERSION)

        def attempt() -> None:
            self._cluster.refresh([topic])
            answer = self._cluster.connection(self._cluster.leader(topic, partition)).call(request)
            for result in answer.markers:
                for each in result.topics:
                    for one in each.partitions:
                        _check(one.error_code, f"the transaction of producer {found.producer_id} on {found.place} was not aborted")

        self._retry(attempt)

    def _listed(self, producer_ids: Collection[int]) -> Iterator[KnownTransaction]:
        for broker, names in self._names(producer_ids=producer_ids):
            yield from self._described(broker, names)

    def _names(self, *, states: Collection[str] = (), producer_ids: Collection[int] = ()) -> Iterator[tuple[int, list[str]]]:
        """The transactional ids of each broker, all of them or only those in these states or of these producers."""
        filters = {"state_filters": list(states), "producer_id_filters": list(producer_ids), "duration_filter": -1}
        request: MessageRequest[Any] = MessageRequest(ApiKey.LIST_TRANSACTIONS, filters | {"transactional_id_pattern": None})
        for broker in sorted(self._cluster.refresh([]).brokers):
            answer = self._cluster.connection(broker).call(request)
            _check(answer.error_code, f"broker {broker} did not list its transactions")
            yield broker, sorted(state.transactional_id for state in answer.transaction_states)

    def _described(self, broker: int, names: list[str]) -> Iterator[KnownTransaction]:
        for some in portions(names, _AT_ONCE):
            request: MessageRequest[Any] = MessageRequest(ApiKey.DESCRIBE_TRANSACTIONS, {"transactional_ids": some})
            for state in self._cluster.connection(broker).call(request).transaction_states:
                if state.error_code == TransactionalIdNotFound.code:
                    continue
                _check(state.error_code, f"the transactional id {state.transactional_id!r} could not be looked at")
                places = sorted(TopicPartition(topic.topic, partition) for topic in state.topics for partition in topic.partitions)
                yield KnownTransaction(
                    state.transactional_id,
                    state.transaction_state,
                    broker,
                    state.producer_id,
                    state.producer_epoch,
                    state.transaction_timeout_ms,
                    state.transaction_start_time_ms,
                    tuple(places),
                )

    def _open_at(self, leader: int, places: list[TopicPartition]) -> Iterator[OpenInLog]:
        fields = {"topics": [{"name": name, "partition_indexes": numbers} for name, numbers in by_topic(places).items()]}
        request: MessageRequest[Any] = MessageRequest(ApiKey.DESCRIBE_PRODUCERS, fields)
        for each in self._cluster.connection(leader).call(request).topics:
            for partition in each.partitions:
                place = TopicPartition(each.name, partition.partition_index)
                _check(partition.error_code, f"the producers of {place} could not be listed")
                for state in partition.active_producers:
                    if state.current_txn_start_offset >= 0:
                        yield OpenInLog(
                            place,
                            state.producer_id,
                            state.producer_epoch,
                            state.coordinator_epoch,
                            state.current_txn_start_offset,
                            state.last_timestamp,
                        )

    def _retry(self, attempt: Callable[[], T]) -> T:
        return retry(attempt, timeout_s=self._timeout_s)


def _check(code: int, what: str) -> None:
    if code:
        raise kafka_error(int(code), what)
