import asyncio
import errno
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from random import Random
from types import SimpleNamespace
from typing import Any, cast

import pytest

from millstream.broker.coordinators.context import CoordinatorContext, as_coordinator_error
from millstream.broker.coordinators.group_coordinator import GroupCoordinator
from millstream.broker.handlers.groups.group_admin import GroupAdminFamily
from millstream.broker.network.api import Fields, Request
from millstream.coordinator_shard import CoordinatorRecord
from millstream.errors import (
    CoordinatorNotAvailable,
    KafkaError,
    MessageTooLarge,
    NotCoordinator,
    NotEnoughReplicas,
    NotLeaderOrFollower,
    StorageError,
    UnknownServerError,
)
from millstream.groups.commands import CommitOffsets, ConsumerHeartbeat, PartitionOffset, TopicOffsets
from millstream.groups.offsets.records import OFFSET_KEY_START
from millstream.groups.settings import GroupSettings
from millstream.groups.shard import GroupCoordinatorShard
from millstream.wire.batch import read_header, split_batches
from millstream.wire.records import decode_records
from millstream.wire.requests.list_groups import ListGroupsRequest
from tests.unit.broker.group_client import find, group_server
from tests.waiting import eventually

GroupContext = CoordinatorContext[GroupCoordinatorShard]


class Answers:
    """What waits."""

    def __init__(self) -> None:
        self.fields: list[Fields] = []

    def answer(self, fields: Fields) -> None:
        self.fields.append(fields)

    def fail(self, error: KafkaError) -> None:
        self.fields.append({"error_code": error.code})


@asynccontextmanager
async def context_in(data: Path, *, options: Mapping[str, str] | None = None) -> AsyncIterator[tuple[GroupContext, GroupCoordinator]]:
    """The partition of the group "group" in a broker of its own."""
    async with group_server(data, options=options) as server:
        await find(server)
        yield server._groups.runtime.context("group"), server._groups


@pytest.mark.parametrize(
    ("error", "answered"),
    [
        (StorageError(), NotCoordinator),
        (NotLeaderOrFollower(), NotCoordinator),
        (NotEnoughReplicas(), CoordinatorNotAvailable),
        (MessageTooLarge(), UnknownServerError),
    ],
    ids=lambda value: type(value).__name__,
)
def test_error_of_the_log_is_answered_as_one_of_the_coordinator(error: KafkaError, answered: type[KafkaError]) -> None:
    assert type(as_coordinator_error(error)) is answered


@pytest.mark.parametrize(
    ("records", "batches", "codec"),
    [
        ([CoordinatorRecord(b"key", b"value"), CoordinatorRecord(b"gone", None)], 1, 0),
        ([CoordinatorRecord(b"big", bytes(2_000_000))], 1, 4),
        ([CoordinatorRecord(b"incompressible", Random(1).randbytes(2_000_000))], 1, 4),
        ([CoordinatorRecord(bytes((number,)), Random(number).randbytes(800_000)) for number in range(2)], 2, 0),
    ],
    ids=["small", "large when it is not compressed", "larger than a client may send", "very many"],
)
async def test_records_of_a_decision_are_one_batch(tmp_path: Path, records: list[CoordinatorRecord], batches: int, codec: int) -> None:
    async with context_in(tmp_path) as (context, _):
        assert context._append(records) == len(records)
        written = [batch for _, batch in split_batches((context.partition.log.path / f"{0:020}.log").read_bytes())]
        assert (len(written), read_header(written[0]).codec) == (batches, codec)
        read = [CoordinatorRecord(record.key or b"", record.value) for batch in written for record in decode_records(batch)]
        assert read == records


async def test_records_that_do_not_fit_into_a_segment_together_are_several_batches(tmp_path: Path) -> None:
    options = {"offsets.topic.segment.bytes": "1048576", "message.max.bytes": "10485760"}
    records = [CoordinatorRecord(bytes((number,)), Random(number).randbytes(600_000)) for number in range(3)]
    async with context_in(tmp_path, options=options) as (context, _):
        assert context._append(records) == 3
        files = sorted(context.partition.log.path.glob("*.log"))
        read = [record.key for path in files for _, batch in split_batches(path.read_bytes()) for record in decode_records(batch)]
        assert read == [record.key for record in records]


async def test_timer_of_a_context_wakes_its_machine(tmp_path: Path) -> None:
    async with context_in(tmp_path) as (context, _):
        assert context._timer is not None, "expired offsets are looked for now and then"
        context.close()
        assert context._timer is None


async def test_read_is_answered_at_once_when_everything_is_committed(tmp_path: Path) -> None:
    async with context_in(tmp_path) as (context, _):
        answers = Answers()
        context.read(lambda _shard: {"error_code": 0}, answers)
        assert answers.fields == [{"error_code": 0}]


def heartbeat(member_id: str) -> ConsumerHeartbeat:
    """A member joins the group."""
    return ConsumerHeartbeat(
        group_id="group",
        member_id=member_id,
        member_epoch=0,
        client_id="client",
        client_host="/host",
        rebalance_timeout_ms=1000,
        subscribed_topic_names=("orders",),
        topic_partitions=(),
    )


def batches_of(context: GroupContext) -> list[bytes]:
    return [bytes(batch) for _, batch in split_batches((context.partition.log.path / f"{0:020}.log").read_bytes())]


async def test_heartbeats_of_one_turn_are_one_batch_and_answered_after_it(tmp_path: Path) -> None:
    async with context_in(tmp_path) as (context, groups):
        members = [Answers() for _ in range(5)]
        for number, member in enumerate(members):
            groups.handle(heartbeat(f"m{number}"), member)
        described = Answers()
        context.read(lambda _shard: {"error_code": 0}, described)
        assert context.partition.log.log_end_offset == 0
        assert not any(waiting.fields for waiting in (*members, described)), "nothing is answered that is not written"
        await asyncio.sleep(0)
        assert [member.fields[0]["member_epoch"] for member in members] == [1, 2, 3, 4, 5]
        assert described.fields == [{"error_code": 0}]
        (batch,) = batches_of(context)
        again = GroupCoordinatorShard(GroupSettings())
        for record in decode_records(batch):
            again.apply(CoordinatorRecord(record.key or b"", record.value))
        assert again.describe_consumer("group") == context.shard.describe_consumer("group")


async def test_what_is_decided_after_a_heartbeat_is_written_after_it(tmp_path: Path) -> None:
    async with context_in(tmp_path) as (context, groups):
        member, committer = Answers(), Answers()
        groups.handle(heartbeat("m"), member)
        topics = [TopicOffsets("orders", None, [PartitionOffset(0, 7)])]
        groups.handle(CommitOffsets(group_id="group", member_id="m", generation_or_member_epoch=1, topics=topics), committer)
        assert (len(member.fields), len(committer.fields)) == (1, 1)
        (batch,) = batches_of(context)
        assert [(record.key or b"").startswith(OFFSET_KEY_START) for record in decode_records(batch)][-2:] == [False, True]
        await asyncio.sleep(0)
        assert len(batches_of(context)) == 1


async def test_disk_that_fails_fails_every_heartbeat_of_the_turn(tmp_path: Path) -> None:
    async with context_in(tmp_path) as (context, groups):
        members = [Answers() for _ in range(3)]
        for number, member in enumerate(members):
            groups.handle(heartbeat(f"m{number}"), member)
        context.partition.log.directory.fail("testing", OSError(errno.EIO, "Input/output error"))
        await asyncio.sleep(0)
        assert [member.fields for member in members] == [[{"error_code": NotCoordinator.code}]] * 3
        assert not context.is_in_use


async def test_shard_that_is_given_up_fails_what_was_not_written(tmp_path: Path) -> None:
    async with context_in(tmp_path) as (context, groups):
        member = Answers()
        groups.handle(heartbeat("m"), member)
        context.fail(UnknownServerError("testing"))
        await asyncio.sleep(0)
        assert member.fields == [{"error_code": NotCoordinator.code}]
        assert context.partition.log.log_end_offset == 0


async def test_mistake_of_ours_while_heartbeats_are_written_leaves_no_client_waiting(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    async with context_in(tmp_path) as (context, groups):
        member = Answers()
        groups.handle(heartbeat("m"), member)
        with monkeypatch.context() as broken:
            broken.setattr(context, "_append", lambda _records, **_: 1 // 0)
            await asyncio.sleep(0)
        assert member.fields == [{"error_code": NotCoordinator.code}]
        assert not context.is_active
        assert "ZeroDivisionError" in caplog.text
        await eventually(lambda: context.is_active)
        assert context.shard.list_groups((), ()) == []


async def test_shard_that_ran_out_of_descriptors_comes_back(tmp_path: Path) -> None:
    async with context_in(tmp_path) as (context, _):
        context.fail(context.partition.log.directory.fail("opening a log", OSError(errno.EMFILE, "Too many open files")))
        assert not context.is_active
        await eventually(lambda: context.is_active)


async def test_groups_are_listed_when_they_are_written(tmp_path: Path) -> None:
    async with context_in(tmp_path) as (context, groups):
        member = Answers()
        groups.handle(heartbeat("m"), member)
        assert context.partition.log.log_end_offset == 0
        request = SimpleNamespace(decode=ListGroupsRequest)
        answer: Any = GroupAdminFamily(groups).list_groups(cast(Request, request))
        assert [group["group_id"] for group in answer["groups"]] == ["group"]
        assert (len(member.fields), context.partition.log.log_end_offset > 0) == (1, True)
