"""The transaction coordinator's shell in a whole broker: its topic, what goes to the partitions, what is there after a restart."""

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from millstream.broker.coordinators.runtime import partition_for
from millstream.broker.coordinators.transaction_coordinator import PartitionErrors, transaction_settings
from millstream.broker.server import BrokerServer
from millstream.coordination.topic_names import OFFSETS_TOPIC, TRANSACTIONS_TOPIC
from millstream.errors import (
    CoordinatorNotAvailable,
    InvalidProducerEpoch,
    InvalidRequest,
    InvalidTransactionTimeout,
    NotCoordinator,
    NotEnoughReplicas,
    PolicyViolation,
    UnknownTopicOrPartition,
)
from millstream.log.transactions.marker import read_marker
from millstream.options.settings import BrokerSettings
from millstream.topic_partition import TopicPartition
from millstream.transaction_errors import (
    ConcurrentTransactions,
    InvalidProducerIdMapping,
    InvalidTxnState,
    OperationNotAttempted,
    ProducerFenced,
    TopicAuthorizationFailed,
    TransactionAbortable,
    TransactionalIdNotFound,
)
from millstream.transactions.commands import AddPartitions, VerifyPartitions
from millstream.transactions.transaction import Producer as ProducerAndEpoch
from millstream.wire.batch import split_batches
from tests.connection import CREATE_TOPICS, DELETE_TOPICS
from tests.unit.broker.group_client import ask, create, group_server
from tests.unit.broker.transaction_client import DESCRIBE_TRANSACTIONS, LIST_TRANSACTIONS, TRANSACTION_OPTIONS, Producer
from tests.waiting import eventually

OK = {("orders", 0): 0, ("orders", 1): 0}
BOTH = {"orders": [0, 1]}


@asynccontextmanager
async def transaction_server(data: Path, options: Mapping[str, str] | None = None) -> AsyncIterator[BrokerServer]:
    async with group_server(data, options={**TRANSACTION_OPTIONS, **(options or {})}) as server:
        yield server


@asynccontextmanager
async def producer_of(data: Path, options: Mapping[str, str] | None = None) -> AsyncIterator[Producer]:
    """A producer that has begun, and a topic of two partitions."""
    async with transaction_server(data, options) as server:
        producer = Producer(server)
        assert await producer.find() == 0
        await create(server, partitions=2)
        assert await producer.init() == 0
        yield producer


def markers_in(server: BrokerServer, topic: str, index: int) -> list[tuple[int, bool]]:
    """Epoch and outcome of each marker in a partition."""
    log = server._storage.replicas.partition(topic, index).log
    found = []
    for header, batch in split_batches((log.path / f"{0:020}.log").read_bytes()):
        marker = read_marker(batch)
        if header.is_control and marker is not None:
            found.append((header.producer_epoch, marker.is_commit))
    return found


async def all_loaded(server: BrokerServer) -> None:
    await eventually(lambda: all(context.is_active for context in server._transactions.runtime))


async def test_looking_for_a_coordinator_creates_the_topic_of_transactions_once(tmp_path: Path) -> None:
    async with transaction_server(tmp_path) as server:
        assert await Producer(server).init() == NotCoordinator.code
        assert await asyncio.gather(*(Producer(server, f"t{number}").find() for number in range(5))) == [0] * 5
        topic = server._cluster.view().topics[TRANSACTIONS_TOPIC]
        assert (len(topic.partitions), topic.configs["cleanup.policy"], topic.configs["min.insync.replicas"]) == (2, "compact", "2")
        assert topic.is_internal


async def test_transaction_is_committed_in_every_partition_and_the_next_one_has_another_epoch(tmp_path: Path) -> None:
    async with producer_of(tmp_path) as producer:
        assert producer.epoch == 0
        assert await producer.add_as_broker(BOTH) == OK
        assert await producer.state() == "Ongoing"
        assert await producer.end(commit=True) == 0
        assert producer.epoch == 1
        await eventually(lambda: markers_in(producer.server, "orders", 1) == [(1, True)])
        assert markers_in(producer.server, "orders", 0) == [(1, True)]
        assert await producer.completed() == "CompleteCommit"
        assert await producer.add_as_broker({"orders": [0]}) == {("orders", 0): 0}
        assert await producer.end(commit=False) == 0
        assert await producer.completed() == "CompleteAbort"
        assert markers_in(producer.server, "orders", 0) == [(1, True), (2, False)]


async def test_next_transaction_may_begin_as_soon_as_the_end_of_the_last_is_answered(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with producer_of(tmp_path) as producer:
        writes = producer.server._marker_writes
        write, loop = writes.write, asyncio.get_running_loop()

        def write_later(*arguments: Any, **named: Any) -> None:
            loop.call_soon(loop.call_soon, lambda: write(*arguments, **named))

        monkeypatch.setattr(writes, "write", write_later)
        for _ in range(3):
            assert await producer.add_as_broker(BOTH) == OK
            assert await producer.end(commit=True) == 0
        assert await producer.state() == "CompleteCommit"


async def test_older_client_keeps_its_epoch_and_may_end_twice(tmp_path: Path) -> None:
    async with producer_of(tmp_path) as producer:
        assert await producer.add(BOTH) == OK
        assert await producer.end(commit=True, version=1) == 0
        assert await producer.completed() == "CompleteCommit"
        assert markers_in(producer.server, "orders", 0) == [(0, True)]
        assert await producer.end(commit=True, version=1) == 0
        assert await producer.end(commit=False, version=1) == InvalidTxnState.code
        assert markers_in(producer.server, "orders", 0) == [(0, True)]


async def test_second_producer_fences_the_first_and_aborts_its_transaction(tmp_path: Path) -> None:
    async with producer_of(tmp_path) as first:
        await first.add(BOTH)
        second = Producer(first.server)
        assert await second.init() == ConcurrentTransactions.code
        assert await second.completed() == "CompleteAbort"
        assert await second.init() == 0
        assert (second.producer_id, second.epoch) == (first.producer_id, 2)
        assert markers_in(first.server, "orders", 0) == [(1, False)]
        assert await first.end(commit=True) == ProducerFenced.code
        assert await first.end(commit=True, version=1) == InvalidProducerEpoch.code
        assert set((await first.add(BOTH, version=1)).values()) == {InvalidProducerEpoch.code}
        assert set((await first.add(BOTH)).values()) == {ProducerFenced.code}
        assert await first.add_offsets("group") == ProducerFenced.code
        assert await first.add_offsets("group", version=1) == InvalidProducerEpoch.code
        assert await first.init(version=3, expected=(first.producer_id, 0)) == InvalidProducerEpoch.code
        assert await first.init(version=4, expected=(first.producer_id, 0)) == ProducerFenced.code


async def test_partitions_that_cannot_be_written_in_a_transaction_leave_the_others_out(tmp_path: Path) -> None:
    async with producer_of(tmp_path) as producer:
        asked = {"orders": [0, 7], "missing": [0], TRANSACTIONS_TOPIC: [0]}
        assert await producer.add(asked) == {
            ("orders", 0): OperationNotAttempted.code,
            ("orders", 7): UnknownTopicOrPartition.code,
            ("missing", 0): UnknownTopicOrPartition.code,
            (TRANSACTIONS_TOPIC, 0): TopicAuthorizationFailed.code,
        }
        refused = await producer.add_as_broker({"orders": [0], "missing": [0]})
        assert refused == {("orders", 0): OperationNotAttempted.code, ("missing", 0): UnknownTopicOrPartition.code}
        assert await producer.state() == "Empty"


async def test_mirror_is_no_part_of_a_transaction(tmp_path: Path) -> None:
    async with producer_of(tmp_path) as producer:
        entry = {"name": "mirrored", "num_partitions": 1, "replication_factor": 1}
        entry |= {"configs": [{"name": "mirror.source", "value": "elsewhere"}]}
        created = await ask(producer.server, CREATE_TOPICS, 7, {"topics": [entry], "timeout_ms": 20_000})
        assert created.topics[0].error_code == 0
        refused = {("orders", 0): OperationNotAttempted.code, ("mirrored", 0): PolicyViolation.code}
        assert await producer.add({"orders": [0], "mirrored": [0]}) == refused
        assert await producer.add_as_broker({"orders": [0], "mirrored": [0]}) == refused


async def test_broker_learns_which_partitions_are_part_of_a_transaction(tmp_path: Path) -> None:
    async with producer_of(tmp_path) as producer:
        await producer.add({"orders": [0]})
        asked = await producer.add_as_broker(BOTH, verify_only=True, version=4)
        assert asked == {("orders", 0): 0, ("orders", 1): TransactionAbortable.code}
        results: list[PartitionErrors] = []
        one = TopicPartition("orders", 0)
        coordinator, who = producer.server._transactions, ProducerAndEpoch(producer.producer_id, producer.epoch)
        coordinator.add_partitions(VerifyPartitions("t", who, frozenset({one})), results.append)
        coordinator.add_partitions(AddPartitions("unknown", who, frozenset({one}), client_version=2), results.append)
        assert results == [{one: 0}, {one: InvalidProducerIdMapping.code}]


async def test_offsets_of_a_group_are_a_partition_of_the_topic_of_offsets(tmp_path: Path) -> None:
    async with producer_of(tmp_path) as producer:
        assert await producer.add_offsets("group") == 0
        topics = {topic.topic: list(topic.partitions) for topic in (await producer.describe()).topics}
        assert topics == {OFFSETS_TOPIC: [partition_for("group", 2)]}
        # The topic of offsets does not exist: it needs no marker.
        assert await producer.end(commit=True) == 0
        assert await producer.completed() == "CompleteCommit"


async def test_open_transaction_goes_on_after_a_restart_and_a_decided_one_is_completed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with producer_of(tmp_path) as producer:
        server = producer.server
        decided = Producer(server, "decided")
        await decided.init()
        assert await producer.add_as_broker({"orders": [0]}) == {("orders", 0): 0}
        assert await decided.add_as_broker({"orders": [1]}) == {("orders", 1): 0}
        monkeypatch.setattr(server._transactions.markers, "send", lambda _transactions: None)
        assert await decided.end(commit=True) == 0
        assert await decided.state() == "PrepareCommit"
        assert await decided.add_as_broker({"orders": [1]}) == {("orders", 1): ConcurrentTransactions.code}
    async with transaction_server(tmp_path) as server:
        await all_loaded(server)
        await eventually(lambda: markers_in(server, "orders", 1) == [(1, True)])
        producer.server = decided.server = server
        assert await decided.completed() == "CompleteCommit"
        assert await producer.state() == "Ongoing"
        assert await producer.end(commit=False) == 0
        assert await producer.completed() == "CompleteAbort"
        assert markers_in(server, "orders", 0) == [(1, False)]


async def test_transaction_that_takes_too_long_is_aborted_and_its_producer_fenced(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    options = {"transaction.abort.timed.out.transaction.cleanup.interval.ms": "20"}
    async with transaction_server(tmp_path, options) as server:
        producer = Producer(server)
        await producer.find()
        await create(server, partitions=2)
        await producer.init(timeout_ms=1)
        caplog.set_level("INFO")
        await producer.add(BOTH)
        await eventually(lambda: markers_in(server, "orders", 1) == [(1, False)])
        assert await producer.end(commit=True, version=4) == ProducerFenced.code
        assert await producer.end(commit=True) == InvalidTxnState.code
        assert [record.message for record in caplog.records if "'t'" in record.message] == [
            "the transaction of 't' was open for longer than its timeout of 1 ms: it is aborted, and its producer fenced"
        ]


async def test_unused_transactional_id_expires(tmp_path: Path) -> None:
    options = {"transactional.id.expiration.ms": "1", "transaction.remove.expired.transaction.cleanup.interval.ms": "20"}
    async with producer_of(tmp_path, options) as producer:
        await eventually(lambda: not any(len(context.shard) for context in producer.server._transactions.runtime))
        assert (await producer.describe()).error_code == TransactionalIdNotFound.code


async def test_partition_whose_topic_is_gone_needs_no_marker(tmp_path: Path) -> None:
    async with producer_of(tmp_path) as producer:
        await create(producer.server, "short-lived")
        await producer.add_as_broker({"orders": [0], "short-lived": [0]})
        deleted = await ask(producer.server, DELETE_TOPICS, 5, {"topic_names": ["short-lived"], "timeout_ms": 20_000})
        assert deleted.responses[0].error_code == 0
        assert await producer.end(commit=True) == 0
        assert await producer.completed() == "CompleteCommit"


async def test_marker_that_cannot_be_written_is_sent_until_it_can(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async with producer_of(tmp_path) as producer:
        await producer.add_as_broker(BOTH)
        leader = producer.server._storage.replicas.partition("orders", 1).as_leader()
        with monkeypatch.context() as patch:

            def refuse(_leader: object) -> None:
                if _leader is leader:
                    raise NotEnoughReplicas("not enough")

            patch.setattr(type(leader), "check_enough_in_sync", refuse)
            assert await producer.end(commit=True) == 0
            await eventually(lambda: len(producer.server._transactions.markers) == 1)
            assert await producer.state() == "PrepareCommit"
            assert markers_in(producer.server, "orders", 0) == [(1, True)]
        await eventually(lambda: markers_in(producer.server, "orders", 1) == [(1, True)])
        assert markers_in(producer.server, "orders", 0) == [(1, True)]
        assert await producer.completed() == "CompleteCommit"


async def test_end_is_written_down_when_the_log_of_the_coordinator_can_be_written_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with producer_of(tmp_path) as producer:
        await producer.add_as_broker(BOTH)
        context: Any = producer.server._transactions.runtime.context("t")
        with monkeypatch.context() as patch:
            written = producer.server._transactions.markers._writes.write

            def refuse(_context: object) -> None:
                raise CoordinatorNotAvailable("not enough replicas")

            def write(*arguments: Any, **named: Any) -> None:
                patch.setattr(type(context), "check_writable", refuse)
                written(*arguments, **named)

            patch.setattr(producer.server._transactions.markers._writes, "write", write)
            assert await producer.end(commit=True) == 0
            await eventually(lambda: len(producer.server._transactions.markers) == 1)
            assert await producer.end(commit=True) == CoordinatorNotAvailable.code
        await eventually(lambda: not producer.server._transactions.markers)
        assert await producer.completed() == "CompleteCommit"


async def test_what_makes_no_sense_is_refused_with_kafkas_codes(tmp_path: Path) -> None:
    async with producer_of(tmp_path) as producer:
        assert await producer.end(commit=True) == InvalidTxnState.code
        assert await producer.init(timeout_ms=900_001) == InvalidTransactionTimeout.code
        assert await producer.init(timeout_ms=0) == InvalidTransactionTimeout.code
        assert await producer.init(expected=(producer.producer_id, -1)) == InvalidRequest.code
        nameless, unknown = Producer(producer.server, ""), Producer(producer.server, "unknown")
        assert await nameless.init() == InvalidRequest.code
        assert await nameless.end(commit=True) == InvalidRequest.code
        assert set((await nameless.add(BOTH)).values()) == {InvalidRequest.code}
        assert (await nameless.describe()).error_code == InvalidRequest.code
        assert await unknown.end(commit=True) == InvalidProducerIdMapping.code
        assert (await unknown.describe()).error_code == TransactionalIdNotFound.code


async def test_many_transactional_ids_are_described_as_one_is(tmp_path: Path) -> None:
    async with producer_of(tmp_path) as producer:
        await producer.add(BOTH)
        alone = [await ask(producer.server, DESCRIBE_TRANSACTIONS, 0, {"transactional_ids": [name]}) for name in ("t", "unknown", "")]
        others = [f"other-{number}" for number in range(200)]
        many = await ask(producer.server, DESCRIBE_TRANSACTIONS, 0, {"transactional_ids": ["t", "unknown", "", *others]})
        assert list(many.transaction_states[:3]) == [one.transaction_states[0] for one in alone]
        assert {one.transactional_id for one in many.transaction_states[3:]} == set(others)
        assert {one.error_code for one in many.transaction_states[3:]} == {TransactionalIdNotFound.code}


async def test_transactions_are_listed_by_state_producer_age_and_name(tmp_path: Path) -> None:
    async with producer_of(tmp_path) as producer:
        other = Producer(producer.server, "other")
        await other.init()
        await producer.add(BOTH)

        async def listed(**filters: object) -> dict[str, str]:
            answer = await ask(producer.server, LIST_TRANSACTIONS, 2, {"duration_filter": -1, **filters})
            assert answer.error_code == 0
            return {one.transactional_id: one.transaction_state for one in answer.transaction_states}

        assert await listed() == {"t": "Ongoing", "other": "Empty"}
        assert await listed(state_filters=["Ongoing", "Nonsense"]) == {"t": "Ongoing"}
        assert await listed(producer_id_filters=[other.producer_id]) == {"other": "Empty"}
        assert await listed(transactional_id_pattern="o.*") == {"other": "Empty"}
        assert await listed(duration_filter=3_600_000) == {"other": "Empty"}  # as in Kafka, one that never began is very old


def test_options_become_settings() -> None:
    options = {"transaction.max.timeout.ms": "5", "transactional.id.expiration.ms": "6"}
    settings = transaction_settings(BrokerSettings(options))
    assert (settings.max_timeout_ms, settings.transactional_id_expiration_ms, settings.abort_interval_ms) == (5, 6, 10_000)
