"""Offsets in transactions at a broker, over its socket: committed, unstable, ended by markers, and found again after a restart."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from millstream.broker.coordinators.offset_transactions import Transaction
from millstream.broker.server import BrokerServer
from millstream.cluster.partition import Partition
from millstream.coordination.topic_names import OFFSETS_TOPIC
from millstream.errors import (
    CoordinatorLoadInProgress,
    CoordinatorNotAvailable,
    InvalidGroupId,
    InvalidProducerEpoch,
    KafkaError,
    NotCoordinator,
    NotEnoughReplicas,
    NotLeaderOrFollower,
    StorageError,
    UnknownServerError,
    UnknownTopicOrPartition,
    UnstableOffsetCommit,
)
from millstream.groups.offsets.store import OffsetStore
from millstream.transaction_errors import InvalidTxnState
from millstream.wire.batch import split_batches
from tests.unit.broker.group_client import ask, commit, create, fetch, find, group_server
from tests.waiting import eventually

TXN_OFFSET_COMMIT, WRITE_TXN_MARKERS, OFFSET_FETCH = 28, 27, 9
PRODUCER = 4000


class Coordinators:
    """Stands in for the coordinators of transactions: they confirm everything at once, unless they are asked to wait."""

    def __init__(self) -> None:
        self.asked: list[tuple[str, Transaction, int]] = []
        self.is_slow = False
        self.done: Callable[[KafkaError | None], None] | None = None

    def verify(self, partition: Partition, transaction: Transaction, *, version: int, done: Callable[[KafkaError | None], None]) -> None:
        self.asked.append((partition.topic, transaction, version))
        self.done = done
        if not self.is_slow:
            done(None)


@asynccontextmanager
async def transactional_server(data: Path) -> AsyncIterator[tuple[BrokerServer, Coordinators]]:
    """A broker with a topic and a coordinator for "group", and with coordinators of transactions that the test plays."""
    coordinators = Coordinators()
    async with group_server(data) as server:
        server._offset_transactions._verification = coordinators
        if server._groups.runtime.is_ready:
            await eventually(lambda: server._groups.runtime.context("group").is_active)
        else:
            await create(server)
            await find(server)
        yield server, coordinators


async def commit_pending(
    server: BrokerServer, offset: int, *, producer_epoch: int = 0, topic: str = "orders", group: str = "group", version: int = 5
) -> int:
    """TxnOffsetCommit of one partition; its error."""
    partition = {"partition_index": 0, "committed_offset": offset, "committed_leader_epoch": 0, "committed_metadata": ""}
    fields = {
        "transactional_id": "copier",
        "group_id": group,
        "producer_id": PRODUCER,
        "producer_epoch": producer_epoch,
        "topics": [{"name": topic, "partitions": [partition]}],
    }
    answer = await ask(server, TXN_OFFSET_COMMIT, version, fields)
    return int(answer.topics[0].partitions[0].error_code)


async def end(server: BrokerServer, *, is_commit: bool, producer_epoch: int = 0) -> int:
    """WriteTxnMarkers for the partition of the group; the error."""
    index = server._groups.runtime.partition_of("group")
    marker = {
        "producer_id": PRODUCER,
        "producer_epoch": producer_epoch,
        "transaction_result": is_commit,
        "topics": [{"name": OFFSETS_TOPIC, "partition_indexes": [index]}],
        "coordinator_epoch": 0,
    }
    answer = await ask(server, WRITE_TXN_MARKERS, 1, {"markers": [marker]})
    return int(answer.markers[0].topics[0].partitions[0].error_code)


async def fetch_stable(server: BrokerServer, version: int = 9) -> tuple[int, int]:
    """OffsetFetch with require_stable: the committed offset, and the error of the partition."""
    group: dict[str, Any] = {"group_id": "group", "topics": [{"name": "orders", "partition_indexes": [0]}]}
    answer = await ask(server, OFFSET_FETCH, version, {**group, "groups": [group], "require_stable": True})
    topics = answer.topics if version < 8 else answer.groups[0].topics
    return int(topics[0].partitions[0].committed_offset), int(topics[0].partitions[0].error_code)


UNSTABLE = (-1, UnstableOffsetCommit.code)


@pytest.mark.parametrize("is_commit", [True, False])
async def test_offset_in_a_transaction_counts_when_its_marker_is_written_also_after_a_restart(tmp_path: Path, is_commit: bool) -> None:
    async with transactional_server(tmp_path) as (server, _):
        assert await commit(server, 3) == 0
        assert await commit_pending(server, 7) == 0
        for version in (7, 8, 9):
            assert await fetch_stable(server, version) == UNSTABLE
        assert await fetch(server) == (0, 3)
    async with transactional_server(tmp_path) as (server, _):
        assert await fetch_stable(server) == UNSTABLE
        assert await end(server, is_commit=is_commit) == 0
        assert await fetch_stable(server) == (7 if is_commit else 3, 0)
    async with transactional_server(tmp_path) as (server, _):
        assert await fetch_stable(server) == (7 if is_commit else 3, 0)


async def test_records_are_in_a_batch_of_the_producers_transaction(tmp_path: Path) -> None:
    async with transactional_server(tmp_path) as (server, _):
        await commit(server, 1)
        await commit_pending(server, 7, producer_epoch=3)
        content = (server._groups.runtime.context("group").partition.log.path / f"{0:020}.log").read_bytes()
        plain, transactional = (header for header, _ in split_batches(content))
        assert (plain.is_transactional, plain.producer_id) == (False, -1)
        assert (transactional.is_transactional, transactional.is_control) == (True, False)
        assert (transactional.producer_id, transactional.producer_epoch, transactional.base_sequence) == (PRODUCER, 3, -1)


async def test_producer_that_is_fenced_is_answered_and_nobody_else_notices(tmp_path: Path) -> None:
    async with transactional_server(tmp_path) as (server, _):
        context = server._groups.runtime.context("group")
        assert await commit_pending(server, 7, producer_epoch=5) == 0
        assert await commit_pending(server, 8, producer_epoch=4) == InvalidProducerEpoch.code
        assert context.is_active
        assert context.partition.log.log_end_offset == 1
        assert await end(server, is_commit=True, producer_epoch=5) == 0
        assert await fetch_stable(server) == (7, 0)


async def test_marker_is_refused_while_the_groups_are_being_loaded(tmp_path: Path) -> None:
    """It would stand behind what is being read, and be missed."""
    async with transactional_server(tmp_path) as (server, _):
        await commit_pending(server, 7)
        context = server._groups.runtime.context("group")
        context.fail(UnknownServerError("testing"))
        assert await end(server, is_commit=True) == NotLeaderOrFollower.code
        assert await commit_pending(server, 8) == CoordinatorLoadInProgress.code
        assert await commit_pending(server, 8, version=1) == CoordinatorNotAvailable.code
        await eventually(lambda: context.is_active)
        assert await fetch_stable(server) == UNSTABLE
        assert await end(server, is_commit=True) == 0
        assert await fetch_stable(server) == (7, 0)


async def test_what_cannot_be_committed_is_refused_partition_by_partition(tmp_path: Path) -> None:
    async with transactional_server(tmp_path) as (server, _):
        for version in range(6):
            assert await commit_pending(server, 7, topic="missing", version=version) == UnknownTopicOrPartition.code
            assert await commit_pending(server, 7, group="", version=version) == InvalidGroupId.code
        assert await fetch_stable(server) == (-1, 0)


async def test_commit_waits_until_its_transaction_is_known_to_be_open(tmp_path: Path) -> None:
    async with transactional_server(tmp_path) as (server, coordinators):
        coordinators.is_slow = True
        waiting = asyncio.create_task(commit_pending(server, 7, version=4))
        await eventually(lambda: coordinators.done is not None)
        assert coordinators.asked == [(OFFSETS_TOPIC, Transaction("copier", PRODUCER, 0), 4)]
        assert await fetch_stable(server) == (-1, 0)
        assert coordinators.done is not None
        coordinators.done(None)
        assert await waiting == 0
        assert await fetch_stable(server) == UNSTABLE


@pytest.mark.parametrize(
    ("error", "answered"),
    [
        (InvalidTxnState("not open"), InvalidTxnState),
        (NotEnoughReplicas(), CoordinatorNotAvailable),
        (NotLeaderOrFollower(), NotCoordinator),
        (StorageError(), NotCoordinator),
    ],
    ids=lambda value: type(value).__name__,
)
async def test_commit_in_a_transaction_that_is_not_open_is_refused(tmp_path: Path, error: KafkaError, answered: type[KafkaError]) -> None:
    async with transactional_server(tmp_path) as (server, coordinators):
        coordinators.is_slow = True
        waiting = asyncio.create_task(commit_pending(server, 7))
        await eventually(lambda: coordinators.done is not None)
        assert coordinators.done is not None
        coordinators.done(error)
        assert await waiting == answered.code
        assert await fetch_stable(server) == (-1, 0)


async def test_mistake_of_ours_after_the_transaction_was_confirmed_leaves_no_client_waiting(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with transactional_server(tmp_path) as (server, coordinators):
        coordinators.is_slow = True
        waiting = asyncio.create_task(commit_pending(server, 7))
        await eventually(lambda: coordinators.done is not None)
        assert coordinators.done is not None
        monkeypatch.setattr(OffsetStore, "commit", lambda *_arguments, **_named: 1 // 0)
        with pytest.raises(ZeroDivisionError):
            coordinators.done(None)
        assert await waiting == UnknownServerError.code
