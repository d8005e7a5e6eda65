"""A transactional producer at the wire, step by step, with every field free to be wrong; and what a broker answered to each step.

What is noted is what clients see and what does not depend on when and where it runs: codes, epochs, and offsets of a topic of its own. The
producer ids of a broker are its own: they are noted as places in the order in which they were granted.
"""

from collections.abc import Iterable
from typing import Any, Final, NamedTuple

from tests.batches import encode_batch, now_ms
from tests.brokers import Broker
from tests.connection import DESCRIBE_PRODUCERS, FETCH, INIT_PRODUCER_ID, LIST_OFFSETS, PRODUCE, Connection
from tests.raw_transactions import ADD_PARTITIONS_TO_TXN, END_TXN, add_fields, end_fields, find_coordinators, init_fields
from tests.waiting import wait_until

WRITE_TXN_MARKERS: Final = 27
DESCRIBE_TRANSACTIONS: Final = 65
TRANSACTIONAL: Final = 0x10
READ_COMMITTED: Final = 1
RETRIED: Final = frozenset({14, 15, 16, 51})
"""The coordinator is loading, away or another one, or still ends the last transaction."""
TIMEOUT_MS: Final = 60_000
IMPLICIT: Final = 12
"""The version of Produce from which on the broker adds partitions to transactions."""


class Granted(NamedTuple):
    """A producer id and an epoch."""

    producer_id: int
    epoch: int


class Sent(NamedTuple):
    """A batch of one record."""

    partition: int
    producer_id: int = -1
    epoch: int = -1
    sequence: int = -1
    flags: int = TRANSACTIONAL

    @property
    def fields(self) -> dict[str, object]:
        """As a part of a Produce request."""
        partition, producer_id, epoch, sequence, flags = self
        records = encode_batch(
            [b"v"], timestamp=now_ms(), attributes=flags, producer_id=producer_id, producer_epoch=epoch, base_sequence=sequence
        )
        return {"index": partition, "records": records}


class Conversation:
    """One connection, a topic, and what was answered."""

    def __init__(self, connection: Connection, topic: str) -> None:
        self.noted: list[tuple[str, object]] = []
        self.topic = topic
        self._connection = connection
        self._producer_ids: list[int] = []

    def ask(self, key: int, version: int, **fields: object) -> Any:
        """Ask again while the last transaction is being ended."""
        answers: list[Any] = []

        def is_settled() -> bool:
            answers.append(self._connection.ask(key, version, fields))
            return not RETRIED.intersection(_codes(answers[-1]))

        wait_until(is_settled, "the last transaction to end")
        return answers[-1]

    def note(self, title: str, answer: object) -> None:
        """Keep what was answered."""
        self.noted.append((title, answer))

    def begin(self, transactional_id: str) -> Granted:
        """A producer id and an epoch."""
        answer = self.ask(INIT_PRODUCER_ID, 4, **init_fields(transactional_id, TIMEOUT_MS))
        assert answer.error_code == 0
        self._producer_ids.append(answer.producer_id)
        return Granted(answer.producer_id, answer.producer_epoch)

    def add(self, transactional_id: str, producer: Granted, *partitions: int) -> None:
        """Make partitions part of the transaction, as clients did before Produce 12."""
        answer = self.ask(ADD_PARTITIONS_TO_TXN, 3, **add_fields(transactional_id, *producer, self.topic, partitions))
        self.note("add", list(_codes(answer)))

    def end(self, transactional_id: str, producer: Granted, *, version: int, is_commit: bool = True) -> Granted:
        """Commit or abort, and wait until the markers are written; from version 5 on there is another epoch afterwards."""
        answer = self.ask(END_TXN, version, **end_fields(transactional_id, *producer, is_commit=is_commit))
        self.note("end", int(answer.error_code))
        wait_until(lambda: self.state_of(transactional_id).startswith("Complete"), "the markers")
        return Granted(answer.producer_id, answer.producer_epoch) if version >= 5 else producer

    def state_of(self, transactional_id: str) -> str:
        """What the coordinator says."""
        [one] = self.ask(DESCRIBE_TRANSACTIONS, 0, transactional_ids=[transactional_id]).transaction_states
        return str(one.transaction_state)

    def produce(self, title: str, transactional_id: str | None, *sent: Sent, version: int) -> None:
        """Send batches; code, offset and log start of each."""
        topics = [{"name": self.topic, "partition_data": [one.fields for one in sent]}]
        answer = self.ask(PRODUCE, version, transactional_id=transactional_id, acks=-1, timeout_ms=30_000, topic_data=topics)
        answered = [
            (one.index, int(one.error_code), one.base_offset, getattr(one, "log_start_offset", None))
            for topic in answer.responses
            for one in topic.partition_responses
        ]
        self.note(title, sorted(answered))

    def mark(self, title: str, producer: Granted, *partitions: int, is_commit: bool = True, version: int = 1, **fields: object) -> None:
        """Markers, as a coordinator or an administrator sends them."""
        topics = [{"name": self.topic, "partition_indexes": partitions}]
        marker = {"producer_id": producer.producer_id, "producer_epoch": producer.epoch, "transaction_result": is_commit, "topics": topics}
        answer = self.ask(WRITE_TXN_MARKERS, version, markers=[{**marker, "coordinator_epoch": 0, **fields}])
        answered = [
            (one.partition_index, int(one.error_code)) for part in answer.markers for topic in part.topics for one in topic.partitions
        ]
        self.note(title, sorted(answered))

    def describe(self, title: str, partition: int = 0) -> None:
        """What the leader knows of producers: id, epoch, last sequence, coordinator epoch, begin of the transaction."""
        [topic] = self.ask(DESCRIBE_PRODUCERS, 0, topics=[{"name": self.topic, "partition_indexes": [partition]}]).topics
        [answer] = topic.partitions
        known = [
            (self._name(one.producer_id), one.producer_epoch, one.last_sequence, one.coordinator_epoch, one.current_txn_start_offset)
            for one in answer.active_producers
        ]
        self.note(title, (int(answer.error_code), sorted(known)))

    def read(self, title: str, partition: int = 0, *, offset: int = 0) -> None:
        """What a reader of committed data is shown: where it stops, and what it has to leave out."""
        wanted = {"partition": partition, "current_leader_epoch": -1, "fetch_offset": offset, "log_start_offset": -1}
        topics = [{"topic": self.topic, "partitions": [{**wanted, "partition_max_bytes": 1 << 20}]}]
        fields = {"replica_id": -1, "max_wait_ms": 0, "min_bytes": 0, "max_bytes": 1 << 20, "session_id": 0, "session_epoch": -1}
        answer = self.ask(FETCH, 11, isolation_level=READ_COMMITTED, topics=topics, rack_id="", **fields)
        [one] = answer.responses[0].partitions
        aborted = [(self._name(each.producer_id), each.first_offset) for each in one.aborted_transactions or ()]
        asked = {"partition_index": partition, "current_leader_epoch": -1, "timestamp": -1}
        offsets = self.ask(
            LIST_OFFSETS, 4, replica_id=-1, isolation_level=READ_COMMITTED, topics=[{"name": self.topic, "partitions": [asked]}]
        )
        latest = offsets.topics[0].partitions[0].offset
        self.note(title, (int(one.error_code), one.high_watermark, one.last_stable_offset, one.log_start_offset, aborted, latest))

    def _name(self, producer_id: int) -> int:
        return self._producer_ids.index(producer_id) if producer_id in self._producer_ids else producer_id


def _codes(answer: Any) -> Iterable[int]:
    if hasattr(answer, "results_by_topic_v3_and_below"):
        return [one.partition_error_code for topic in answer.results_by_topic_v3_and_below for one in topic.results_by_partition]
    if hasattr(answer, "transaction_states"):
        return [one.error_code for one in answer.transaction_states]
    return [getattr(answer, "error_code", 0)]


def await_coordinator(broker: Broker, transactional_id: str) -> None:
    """Wait until there is one, with its topic."""
    with broker.connect() as connection:
        wait_until(lambda: transactional_id in find_coordinators(connection, transactional_id), "a transaction coordinator")
