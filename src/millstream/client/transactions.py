"""Transactions by the wire protocol: begun by one process, ended by another that knows id, producer id and epoch.

    transactions = Transactions(cluster, timeout_s=30)
    opened = transactions.begin("copier-0", timeout_ms=60_000)       # ends and fences what was under way under that id
    producer.begin(transactions.writing(opened))                     # `client.raw_producer`: its batches belong to the transaction
    ...
    transactions.end([opened], commit=True)                          # anywhere, as often as one likes

Each transaction has its own pair of producer id and epoch, because `begin` always asks for a new one: so an EndTxn that comes late, or
again, means the transaction that it was meant for. There are two protocols (KIP-890): under `transaction.version` 2 the partitions are
added by Produce (version 12) and EndTxn (version 5) raises the epoch; before that, partitions are added by AddPartitionsToTxn. Which of
them a transaction speaks is decided when it begins, and remembered with it.
"""

from collections.abc import Callable, Collection, Iterable, Mapping
from typing import Any, Final, NamedTuple

from millstream.client.cluster import Cluster
from millstream.client.codecs.produce import FIRST_THAT_ADDS_PARTITIONS, WITHOUT_ADDING_PARTITIONS
from millstream.client.codecs.request import MessageRequest
from millstream.client.coordinators import TRANSACTION, Coordinators
from millstream.client.errors import kafka_error
from millstream.errors import InvalidProducerEpoch, InvalidTransactionTimeout, KafkaError
from millstream.topic_partition import TopicPartition, by_topic
from millstream.transaction_errors import (
    InvalidProducerIdMapping,
    InvalidTxnState,
    ProducerFenced,
    TransactionAbortable,
    TransactionalIdNotFound,
)
from millstream.wire.api import ApiKey

SECOND_PROTOCOL: Final = 2
_FIRST_PROTOCOL: Final = 1
_FEATURE: Final = "transaction.version"
_WITH_EPOCH_BUMP: Final = 5
_LAST_OF_CLIENTS: Final = 3
"""Newer versions of AddPartitionsToTxn are for brokers, and of AddOffsetsToTxn for the second protocol."""
_LAST_WITHOUT_TWO_PHASES: Final = 5
"""InitProducerId 6 is for KIP-939."""
_LOST: Final = (
    InvalidProducerEpoch,
    ProducerFenced,
    InvalidTxnState,
    InvalidProducerIdMapping,
    TransactionalIdNotFound,
    TransactionAbortable,
)


class OpenTransaction(NamedTuple):
    """A transaction as whoever ends it has to name it; `version` is that of the protocol, 1 or 2."""

    transactional_id: str
    producer_id: int
    epoch: int
    version: int = SECOND_PROTOCOL


class TransactionWriting(NamedTuple):
    """What a producer needs to write in a transaction."""

    opened: OpenTransaction
    add_partitions: Callable[[Collection[TopicPartition]], None]
    """Says which partitions are about to be written for the first time."""

    @property
    def produce_version(self) -> int:
        """The version of Produce that belongs to the protocol."""
        return FIRST_THAT_ADDS_PARTITIONS if self.opened.version == SECOND_PROTOCOL else WITHOUT_ADDING_PARTITIONS


class Transactions:
    """Begins and ends transactions of a cluster, for one thread; `transaction_admin` looks at them."""

    def __init__(self, cluster: Cluster, *, timeout_s: float) -> None:
        self._cluster = cluster
        self._coordinators = Coordinators(cluster, TRANSACTION, timeout_s=timeout_s)
        self._version: int | None = None

    def begin(self, transactional_id: str, *, timeout_ms: int) -> OpenTransaction:
        """A new producer epoch under this id: what another producer left open is aborted, and it can write no more."""
        return self._initialise([transactional_id], timeout_ms=timeout_ms)[transactional_id]

    def fence(self, transactional_ids: Iterable[str], *, timeout_ms: int) -> None:
        """Abort what is open under these ids; whoever wrote there can write no more without a new `begin`."""
        self._initialise(transactional_ids, timeout_ms=timeout_ms)

    def writing(self, opened: OpenTransaction) -> TransactionWriting:
        """What a producer needs to write in the transaction."""

        def add(places: Collection[TopicPartition]) -> None:
            if opened.version == _FIRST_PROTOCOL:
                self._add_partitions(opened, places)

        return TransactionWriting(opened, add)

    def end(
        self, transactions: Iterable[OpenTransaction], *, commit: bool, timeout_s: float | None = None
    ) -> dict[OpenTransaction, KafkaError]:
        """Commit or abort all of them, again those that are ended already. Returns those that cannot be: ended otherwise, or fenced."""
        wanted = {opened.transactional_id: opened for opened in transactions}
        requests = {name: _end_request(opened, commit=commit) for name, opened in wanted.items()}

        def read(name: str, answer: Any) -> KafkaError | None:
            try:
                _check(int(answer.error_code), f"the transaction of {name!r} was not {'committed' if commit else 'aborted'}")
            except _LOST as error:
                return error
            return None

        found = self._coordinators.ask_all(requests, read, timeout_s=timeout_s)
        return {wanted[name]: error for name, error in found.items() if error is not None}

    def add_group(self, opened: OpenTransaction, group_id: str) -> None:
        """Say that offsets of this group are about to be committed in the transaction; TxnOffsetCommit of the second protocol says so."""
        if opened.version != _FIRST_PROTOCOL:
            return
        fields = {
            "transactional_id": opened.transactional_id,
            "producer_id": opened.producer_id,
            "producer_epoch": opened.epoch,
            "group_id": group_id,
        }
        what = f"offsets of the group {group_id!r} were not added to the transaction of {opened.transactional_id!r}"
        request: MessageRequest[Any] = MessageRequest(ApiKey.ADD_OFFSETS_TO_TXN, fields, highest=_LAST_OF_CLIENTS)
        self._coordinators.ask(opened.transactional_id, request, lambda answer: _check(int(answer.error_code), what))

    def commit(self, opened: OpenTransaction) -> OpenTransaction:
        """Commit it, or raise why it cannot be. Returns the producer's next one: the second protocol gives it another epoch, and another
        producer id when the epochs are used up."""

        def read(answer: Any) -> OpenTransaction:
            _check(int(answer.error_code), f"the transaction of {opened.transactional_id!r} was not committed")
            if opened.version == _FIRST_PROTOCOL:
                return opened
            return opened._replace(producer_id=int(answer.producer_id), epoch=int(answer.producer_epoch))

        return self._coordinators.ask(opened.transactional_id, _end_request(opened, commit=True), read)

    def version(self) -> int:
        """Which protocol the cluster has agreed on."""
        if self._version is None:
            fields = {"client_software_name": "millstream", "client_software_version": "1"}
            answer: Any = self._cluster.call(MessageRequest(ApiKey.API_VERSIONS, fields, lowest=3, highest=3))
            levels = {feature.name: int(feature.max_version_level) for feature in answer.finalized_features}
            self._version = SECOND_PROTOCOL if levels.get(_FEATURE, 0) >= SECOND_PROTOCOL else _FIRST_PROTOCOL
        return self._version

    def _initialise(self, transactional_ids: Iterable[str], *, timeout_ms: int) -> dict[str, OpenTransaction]:
        requests = {name: _init_request(name, timeout_ms=timeout_ms) for name in transactional_ids}

        def read(name: str, answer: Any) -> OpenTransaction:
            if answer.error_code == InvalidTransactionTimeout.code:
                raise InvalidTransactionTimeout(
                    f"the brokers allow no transaction.timeout.ms of {timeout_ms}: lower it, or raise their transaction.max.timeout.ms"
                )
            _check(int(answer.error_code), f"no transaction can begin under the id {name!r}")
            return OpenTransaction(name, int(answer.producer_id), int(answer.producer_epoch), self.version())

        return self._coordinators.ask_all(requests, read)

    def _add_partitions(self, opened: OpenTransaction, places: Collection[TopicPartition]) -> None:
        fields = {
            "v3_and_below_transactional_id": opened.transactional_id,
            "v3_and_below_producer_id": opened.producer_id,
            "v3_and_below_producer_epoch": opened.epoch,
            "v3_and_below_topics": [{"name": topic, "partitions": partitions} for topic, partitions in by_topic(places).items()],
        }
        request: MessageRequest[Any] = MessageRequest(ApiKey.ADD_PARTITIONS_TO_TXN, fields, highest=_LAST_OF_CLIENTS)

        def read(answer: Any) -> None:
            for topic in answer.results_by_topic_v3_and_below:
                for partition in topic.results_by_partition:
                    _check(
                        int(partition.partition_error_code),
                        f"{topic.name}-{partition.partition_index} was not added to the transaction of {opened.transactional_id!r}",
                    )

        self._coordinators.ask(opened.transactional_id, request, read)


def _init_request(transactional_id: str, *, timeout_ms: int) -> MessageRequest[Any]:
    fields = {"transactional_id": transactional_id, "transaction_timeout_ms": timeout_ms, "producer_id": -1, "producer_epoch": -1}
    return MessageRequest(ApiKey.INIT_PRODUCER_ID, fields, highest=_LAST_WITHOUT_TWO_PHASES)


def _end_request(opened: OpenTransaction, *, commit: bool) -> MessageRequest[Any]:
    fields: Mapping[str, object] = {
        "transactional_id": opened.transactional_id,
        "producer_id": opened.producer_id,
        "producer_epoch": opened.epoch,
        "committed": commit,
    }
    if opened.version == SECOND_PROTOCOL:
        return MessageRequest(ApiKey.END_TXN, fields, lowest=_WITH_EPOCH_BUMP, highest=_WITH_EPOCH_BUMP)
    return MessageRequest(ApiKey.END_TXN, fields, highest=_WITH_EPOCH_BUMP - 1)


def _check(code: int, what: str) -> None:
    if code:
        raise kafka_error(code, what)
