"""Commits that look alike, in a whole broker: the lane says and keeps what the handler does."""

import asyncio
import struct
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest

from millstream.broker.coordinators.commit_lane import MAX_REMEMBERED_BYTES
from millstream.broker.coordinators.context import CoordinatorContext
from millstream.broker.server import BrokerServer
from millstream.errors import IllegalGeneration, UnknownMemberId, UnknownTopicOrPartition
from millstream.groups.offsets.repeated_commit import RepeatedCommit
from millstream.groups.shard import GroupCoordinatorShard
from tests.connection import DELETE_TOPICS, decode_response, encode_request
from tests.unit.broker.coordinators.test_group_coordinator import join, loaded
from tests.unit.broker.group_client import OFFSET_COMMIT, ask, create, fetch, find, group_server
from tests.waiting import eventually

VERSIONS = (6, 7, 8, 9, 10)


class Committer:
    """One connection that commits; offsets by partition of the topic `orders`."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, topic_id: UUID) -> None:
        self.reader = reader
        self.writer = writer
        self.topic_id = topic_id

    async def commit(self, offsets: Mapping[int, int], *, version: int = 9, member: str = "", generation: int = -1) -> list[int]:
        """The error of each partition."""
        await self.send(offsets, version=version, member=member, generation=generation)
        return await self.receive(version=version)

    async def send(self, offsets: Mapping[int, int], *, version: int = 9, member: str = "", generation: int = -1) -> None:
        partitions = [
            {"partition_index": index, "committed_offset": offset, "committed_leader_epoch": 3, "committed_metadata": "note" * (index % 2)}
            for index, offset in offsets.items()
        ]
        fields: dict[str, object] = {
            "group_id": "group",
            "generation_id_or_member_epoch": generation,
            "member_id": member,
            "group_instance_id": None,
            "topics": [{"name": "orders", "topic_id": self.topic_id, "partitions": partitions}],
        }
        self.writer.write(encode_request(OFFSET_COMMIT, version, fields))

    async def receive(self, *, version: int = 9) -> list[int]:
        async with asyncio.timeout(20):
            (size,) = struct.unpack(">i", await self.reader.readexactly(4))
            answer: Any = decode_response(OFFSET_COMMIT, version, await self.reader.readexactly(size))[1]
        return [int(one.error_code) for one in answer.topics[0].partitions]


@asynccontextmanager
async def committer(server: BrokerServer, *, partitions: int = 3) -> AsyncIterator[Committer]:
    await find(server)
    await create(server, partitions=partitions)
    reader, writer = await asyncio.open_connection(*server.address)
    yield Committer(reader, writer, server._cluster.view().topics["orders"].topic_id)
    writer.close()
    await writer.wait_closed()


@pytest.fixture
def taken(monkeypatch: pytest.MonkeyPatch) -> list[bool]:
    """What the lane said, each time that it was asked."""
    asked: list[bool] = []
    ordinary = CoordinatorContext.write_encoded

    def watched(self: CoordinatorContext[GroupCoordinatorShard], *arguments: Any) -> bool:
        asked.append(ordinary(self, *arguments))
        return asked[-1]

    monkeypatch.setattr(CoordinatorContext, "write_encoded", watched)
    return asked


@pytest.mark.parametrize("version", VERSIONS)
async def test_third_commit_of_the_same_partitions_goes_through_the_lane_and_is_there_after_a_restart(
    tmp_path: Path, taken: list[bool], version: int
) -> None:
    async with group_server(tmp_path) as server, committer(server) as client:
        for number in range(5):
            assert await client.commit({0: number, 2: 10 + number, 1: 20 + number}, version=version) == [0, 0, 0]
        assert taken == [True] * 3
        assert await fetch(server) == (0, 4)
        positions = list(server._groups.runtime.context("group").shard._offsets.items("group"))
    async with group_server(tmp_path) as server:
        await loaded(server)
        assert list(server._groups.runtime.context("group").shard._offsets.items("group")) == positions
        assert [(partition, one.offset, one.leader_epoch, one.metadata) for _, partition, one in positions] == [
            (0, 4, 3, ""),
            (2, 14, 3, ""),
            (1, 24, 3, "note"),
        ]


async def test_pipelined_commits_are_answered_in_order(tmp_path: Path, taken: list[bool]) -> None:
    async with group_server(tmp_path) as server, committer(server) as client:
        for number in range(50):
            await client.send({0: number} if number != 30 else {0: 1, 7: 1})
        answers = [await client.receive() for _ in range(50)]
        assert answers == [[0] if number != 30 else [0, UnknownTopicOrPartition.code] for number in range(50)]
        assert await fetch(server) == (0, 49)
        assert sum(taken) == 28 + 17  # two each to begin with


async def test_members_of_another_generation_are_refused_in_the_lane(tmp_path: Path, taken: list[bool]) -> None:
    async with group_server(tmp_path) as server, committer(server) as client:
        member, generation = await join(server)
        for number in range(4):
            assert await client.commit({0: number}, member=member, generation=generation) == [0]
        assert taken == [True, True]
        context = server._groups.runtime.context("group")
        context.shard._groups.existing("group").generation.generation_id += 1  # type: ignore[union-attr]  # as a rebalance does
        assert await client.commit({0: 9}, member=member, generation=generation) == [IllegalGeneration.code]
        assert await client.commit({0: 9}, member="nobody" + member[6:], generation=generation) == [UnknownMemberId.code]
        assert taken == [True, True, False]
        assert await fetch(server) == (0, 3)


async def test_commit_into_a_topic_that_is_gone_is_refused_in_the_lane(tmp_path: Path, taken: list[bool]) -> None:
    async with group_server(tmp_path) as server, committer(server) as client:
        for number in range(3):
            assert await client.commit({0: number}) == [0]
        await ask(server, DELETE_TOPICS, 5, {"topic_names": ["orders"], "timeout_ms": 20_000})
        await eventually(lambda: "orders" not in server._groups.image.topics)
        assert await client.commit({0: 9}) == [UnknownTopicOrPartition.code]
        assert taken == [True]


async def test_commit_that_must_be_on_disk_first_waits_as_ever(tmp_path: Path, taken: list[bool]) -> None:
    async with group_server(tmp_path, options={"log.flush.interval.messages": "1"}) as server, committer(server) as client:
        for number in range(4):
            assert await client.commit({0: number}) == [0]
        assert await fetch(server) == (0, 3)
        assert not any(taken)


async def test_commit_after_the_coordinator_was_given_up_is_not_lost(tmp_path: Path) -> None:
    async with group_server(tmp_path) as server, committer(server) as client:
        for number in range(3):
            assert await client.commit({0: number}) == [0]
        context = server._groups.runtime.context("group")
        context.fail(UnknownTopicOrPartition("for the test"))
        assert await client.commit({0: 9}) != [0]
        await eventually(lambda: context.is_active)
        assert await client.commit({0: 10}) == [0]
        assert await fetch(server) == (0, 10)


async def test_shape_of_an_enormous_commit_is_not_kept(tmp_path: Path, taken: list[bool]) -> None:
    count = MAX_REMEMBERED_BYTES // 20
    async with group_server(tmp_path) as server, committer(server, partitions=1) as client:
        for _ in range(4):
            errors = await client.commit(dict.fromkeys(range(count), 1))
            assert errors == [0] + [UnknownTopicOrPartition.code] * (count - 1)
        assert taken == []


async def test_mistake_in_the_lane_closes_the_connection_and_nothing_unwritten_is_believed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As in the router: the client is not left waiting, and what the log says holds."""

    def fail(*_arguments: object, **_named: object) -> bytes:
        raise RuntimeError("a mistake of ours")

    async with group_server(tmp_path) as server, committer(server) as client:
        for number in range(2):
            assert await client.commit({0: number}) == [0]
        monkeypatch.setattr(RepeatedCommit, "encode_records", fail)
        with pytest.raises(asyncio.IncompleteReadError):
            async with asyncio.timeout(5):
                await client.commit({0: 9})
        await eventually(lambda: server._groups.runtime.context("group").is_active)
        assert await fetch(server) == (0, 1)
