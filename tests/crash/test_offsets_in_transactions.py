"""Offsets in transactions after their log was compacted and the broker killed: what counts, and what is pending, is as before."""

from random import Random

from kio.schema.errors import ErrorCode

from tests.brokers import Broker, StartBroker
from tests.clients.group_requests import NOT_YET, OFFSET_COMMIT, OFFSET_FETCH, await_coordinator
from tests.connection import Connection
from tests.machines.pending_offsets_model import OffsetsModel
from tests.raw_transactions import END_TXN, RawTransaction, find_coordinators
from tests.topics import create_topic
from tests.waiting import wait_until

TXN_OFFSET_COMMIT = 28
GROUP = "group"
PARTITIONS = range(200)
AT_ONCE = 120
MOST_STEPS = 2_000


class Copier(RawTransaction):
    """A producer that commits offsets in its transactions, as those of `transaction.version` 2 do."""

    def commit_offsets(self, topic: str, partitions: list[int], offset: int) -> None:
        who = {"transactional_id": self.transactional_id, "producer_id": self.producer_id, "producer_epoch": self.epoch}
        fields = {**who, "group_id": GROUP, "topics": committed(topic, partitions, offset)}

        def codes() -> set[int]:
            return {int(one.error_code) for one in self.connection.ask(TXN_OFFSET_COMMIT, 5, fields).topics[0].partitions}

        wait_until(lambda: codes() == {0}, "the end of the transaction before")

    def finish(self, *, is_commit: bool) -> None:
        who = {"transactional_id": self.transactional_id, "producer_id": self.producer_id, "producer_epoch": self.epoch}

        def is_decided() -> bool:
            answer = self.connection.ask(END_TXN, 5, {**who, "committed": is_commit})
            if answer.error_code in NOT_YET:
                return False
            assert answer.error_code == ErrorCode.none
            self.producer_id, self.epoch = answer.producer_id, answer.producer_epoch
            return True

        wait_until(is_decided, "the coordinator of the transaction")


def committed(topic: str, partitions: list[int], offset: int) -> list[dict[str, object]]:
    entry = {"committed_offset": offset, "committed_leader_epoch": -1, "committed_metadata": ""}
    return [{"name": topic, "partitions": [{"partition_index": index, **entry} for index in partitions]}]


def shown(broker: Broker, topic: str) -> list[tuple[int, bool]]:
    """What is committed in each partition, and whether that is stable."""
    asked = [{"group_id": GROUP, "topics": [{"name": topic, "partition_indexes": list(PARTITIONS)}]}]
    with broker.connect() as connection:
        offsets, stable = (
            {one.partition_index: one for one in connection.ask(OFFSET_FETCH, 9, fields).groups[0].topics[0].partitions}
            for fields in ({"groups": asked, "require_stable": False}, {"groups": asked, "require_stable": True})
        )
    return [(offsets[index].committed_offset, stable[index].error_code == ErrorCode.none) for index in PARTITIONS]


def segment_sizes(broker: Broker) -> list[int]:
    return [path.stat().st_size for path in sorted(broker.partition_directory("__consumer_offsets").glob("*.log"))]


def fill_a_segment(broker: Broker, connection: Connection, topic: str, copiers: dict[int, Copier]) -> OffsetsModel:
    """Commits, plain and in transactions that are committed or aborted, until there is something to compact; the first two are ended."""
    model, random = OffsetsModel(), Random(16)
    for value in range(MOST_STEPS):
        what, producer = random.choice(["plain", "pending", "pending", "commit", "abort"]), random.choice([1, 2])
        partitions = random.sample(PARTITIONS, AT_ONCE)
        if what == "plain":
            fields = {"group_id": GROUP, "generation_id_or_member_epoch": -1, "topics": committed(topic, partitions, value)}
            assert {one.error_code for one in connection.ask(OFFSET_COMMIT, 8, fields).topics[0].partitions} == {ErrorCode.none}
        elif what == "pending":
            copiers[producer].commit_offsets(topic, partitions, value)
        elif model.pending[producer]:
            copiers[producer].finish(is_commit=what == "commit")
        for partition in partitions:
            model.take((what, producer, partition), value)
        if len(segment_sizes(broker)) > 1:
            break
    for producer in (1, 2):
        if model.pending[producer]:
            copiers[producer].finish(is_commit=True)
            model.take(("commit", producer, 0), 0)
    return model


def test_what_counts_and_what_is_pending_survives_compaction_and_a_kill(start_broker: StartBroker) -> None:
    broker = start_broker(
        offsets_topic_num_partitions=1,
        offsets_topic_segment_bytes=1 << 20,
        transaction_state_log_num_partitions=1,
        transaction_state_log_replication_factor=1,
        transaction_state_log_min_isr=1,
        log_cleaner_backoff_ms=100,
        log_cleaner_min_cleanable_ratio=0.01,
    )
    await_coordinator(broker, GROUP)
    topic = create_topic(broker, partitions=len(PARTITIONS))
    with broker.connect() as connection:
        wait_until(lambda: find_coordinators(connection, "copier"), "the coordinator of transactions")
        copiers = {number: Copier(connection, f"copier-{number}") for number in (1, 2, 3)}
        model = fill_a_segment(broker, connection, topic, copiers)
        copiers[3].commit_offsets(topic, list(PARTITIONS[:50]), 1_000_000)
        for partition in PARTITIONS[:50]:
            model.take(("pending", 3, partition), 1_000_000)
        assert shown(broker, topic) == model.shown(PARTITIONS)
    wait_until(lambda: sum(segment_sizes(broker)) < 1 << 19, f"compaction of {segment_sizes(broker)}")
    broker.kill()
    broker.start()
    await_coordinator(broker, GROUP)
    assert shown(broker, topic) == model.shown(PARTITIONS)
    with broker.connect() as connection:
        copiers[3].connection = connection
        copiers[3].finish(is_commit=True)
    model.take(("commit", 3, 0), 0)
    wait_until(lambda: shown(broker, topic) == model.shown(PARTITIONS), "the marker")
