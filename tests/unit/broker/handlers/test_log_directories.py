"""What lies where on disk, asked for by clients that ask for much."""

import asyncio
from collections.abc import AsyncIterator, Coroutine
from pathlib import Path
from typing import Any

import pytest

from millstream.broker.handlers.log_directories import LogDirectoriesFamily
from millstream.broker.storage import loop_turns
from millstream.cluster.replicas import Replicas
from millstream.errors import UnknownTopicOrPartition
from millstream.log.config import LogConfig
from millstream.wire.api import ApiKey
from tests.unit.broker.handlers.desk import Desk
from tests.unit.cluster.hosting import follow, replicas_on, started_logs, topic_state, view_of


@pytest.fixture
async def house(tmp_path: Path) -> AsyncIterator[tuple[LogDirectoriesFamily, Replicas]]:
    logs = started_logs(tmp_path / "a", tmp_path / "b")
    replicas = replicas_on(logs, log_config=lambda _topic: LogConfig())
    await follow(replicas, view_of(topic_state("orders", partitions=10)))
    yield LogDirectoriesFamily(logs, replicas, None), replicas
    logs.close()


async def turns_of(work: Coroutine[Any, Any, Any]) -> tuple[int, Any]:
    """How many turns others had meanwhile, and what came of it."""
    task, turns = asyncio.ensure_future(work), 0
    while not task.done():
        await asyncio.sleep(0)
        turns += 1
    return turns, task.result()


@pytest.mark.parametrize("version", [1, 2])
async def test_others_have_a_turn_while_many_partitions_are_asked_to_move(
    desk: Desk, house: tuple[LogDirectoriesFamily, Replicas], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, version: int
) -> None:
    monkeypatch.setattr(loop_turns, "TURN_S", -1.0)
    family, _ = house
    names = [
        {"name": "unknown", "partitions": list(range(500))},
        {"name": "orders", "partitions": [3, 11, 3]},
        {"name": "x", "partitions": []},
    ]
    dirs = [{"path": str(tmp_path / "b"), "topics": names}]
    turns, answer = await turns_of(desk.ask(family.alter_replica_log_dirs, ApiKey.ALTER_REPLICA_LOG_DIRS, version, dirs=dirs))
    assert turns > 500
    found = {one.topic_name: [(part.partition_index, part.error_code) for part in one.partitions] for one in answer.results}
    code = UnknownTopicOrPartition.code
    assert found == {"unknown": [(number, code) for number in range(500)], "orders": [(3, 0), (11, code)]}


def take_small_turns(monkeypatch: pytest.MonkeyPatch, *, at_once: int) -> None:
    """Let every few elements have a turn of the loop, however quick they are."""
    monkeypatch.setattr(loop_turns, "AT_ONCE", at_once)
    monkeypatch.setattr(loop_turns, "TURN_S", -1.0)


async def test_others_have_a_turn_while_many_partitions_are_described(
    desk: Desk, house: tuple[LogDirectoriesFamily, Replicas], monkeypatch: pytest.MonkeyPatch
) -> None:
    take_small_turns(monkeypatch, at_once=2)
    family, _ = house
    for topics in (None, [{"topic": "orders", "partitions": [*range(20), *range(20)]}, {"topic": "unknown", "partitions": [1]}]):
        turns, answer = await turns_of(desk.ask(family.describe_log_dirs, ApiKey.DESCRIBE_LOG_DIRS, 4, topics=topics))
        assert turns >= 5
        described = [[part.partition_index for one in result.topics for part in one.partitions] for result in answer.results]
        assert sorted(described[0] + described[1]) == list(range(10))
        assert [len(one) for one in described] == [5, 5]


async def test_a_log_that_goes_elsewhere_meanwhile_is_described_once(
    desk: Desk, house: tuple[LogDirectoriesFamily, Replicas], monkeypatch: pytest.MonkeyPatch
) -> None:
    take_small_turns(monkeypatch, at_once=1)
    family, replicas = house
    a, b = family._logs.directories
    task = asyncio.ensure_future(desk.ask(family.describe_log_dirs, ApiKey.DESCRIBE_LOG_DIRS, 4, topics=None))
    while not task.done():
        await asyncio.sleep(0)
        for partition in replicas:
            partition.log.directory = b if partition.log.directory is a else a
    described = [part.partition_index for result in task.result().results for one in result.topics for part in one.partitions]
    assert sorted(described) == list(range(10))
