import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from millstream.clock import SystemClock
from millstream.coordination import paths
from millstream.coordination.embedded import EmbeddedCoordination
from millstream.coordination.interface import WatchCallback, ZnodeStat
from millstream.files import Files
from millstream.mirror.groups import paper_offsets
from millstream.mirror.groups.paper_offsets import PaperOffsets
from millstream.topic_partition import TopicPartition
from millstream.zookeeper.keeper import TreeKeeper

PLACE = TopicPartition("clicks", 0)
ENDS = {PLACE: 50, TopicPartition("orders", 0): 50}


@pytest.fixture
async def trees(tmp_path: Path) -> AsyncIterator[tuple[EmbeddedCoordination, EmbeddedCoordination]]:
    keepers = []
    for name in ("source", "target"):
        (tmp_path / name).mkdir()
        keepers.append(await TreeKeeper.open(tmp_path / name, files=Files(), clock=SystemClock(), is_synced=False))
    source, target = (EmbeddedCoordination(keeper, broker_session_name="tests") for keeper in keepers)
    yield source, target
    for keeper in keepers:
        await keeper.close()


async def store(tree: EmbeddedCoordination, group: str, offset: int) -> None:
    await tree.create(paths.committed_offset(group, topic_name="clicks", partition=0), str(offset).encode(), make_parents=True)


async def stored(tree: EmbeddedCoordination, group: str) -> bytes | None:
    path = paths.committed_offset(group, topic_name="clicks", partition=0)
    return None if await tree.exists(path) is None else (await tree.get(path))[0]


async def test_offsets_go_forward_and_not_past_the_copy(trees: tuple[EmbeddedCoordination, EmbeddedCoordination]) -> None:
    source, target = trees
    for group, offset in {"new": 40, "ahead": 90, "behind": 30, "millstream-mirror-x": 20}.items():
        await store(source, group, offset)
    await store(target, "behind", 45)
    assert await PaperOffsets(source, target).copy(ENDS) == 2
    found = {group: await stored(target, group) for group in ("new", "ahead", "behind", "millstream-mirror-x")}
    assert found == {"new": b"40", "ahead": b"50", "behind": b"45", "millstream-mirror-x": None}
    assert await PaperOffsets(source, target).copy(ENDS) == 0


async def test_a_group_with_consumers_at_the_target_is_left_alone(trees: tuple[EmbeddedCoordination, EmbeddedCoordination]) -> None:
    source, target = trees
    await store(source, "busy", 40)
    await target.create(paths.consumer("busy", "ann"), b"{}", ephemeral=True, make_parents=True)
    assert await PaperOffsets(source, target).copy(ENDS) == 0


async def test_a_round_reads_only_what_has_changed(
    trees: tuple[EmbeddedCoordination, EmbeddedCoordination], monkeypatch: pytest.MonkeyPatch
) -> None:
    source, target = trees
    for group in ("one", "two"):
        await store(source, group, 30)
    offsets = PaperOffsets(source, target)
    assert await offsets.copy(ENDS) == 2
    read: list[str] = []
    really_get = source.get

    async def get(path: str, *, watch: WatchCallback | None = None) -> tuple[bytes, ZnodeStat]:
        read.append(path)
        return await really_get(path, watch=watch)

    monkeypatch.setattr(source, "get", get)
    assert (await offsets.copy(ENDS), read) == (0, [])
    path = paths.committed_offset("two", topic_name="clicks", partition=0)
    await source.set(path, b"60")
    await asyncio.sleep(0)  # the watch is called
    assert (await offsets.copy(ENDS), read, await stored(target, "two")) == (1, [path], b"50")
    assert await offsets.copy(ENDS | {PLACE: 70}) == 1, "the copy has come so far"
    assert await stored(target, "two") == b"60"
    read.clear()
    assert (await offsets.copy(ENDS | {PLACE: 70}), read) == (0, [])
    await source.create(paths.committed_offset("two", topic_name="orders", partition=0), b"9", make_parents=True)
    await asyncio.sleep(0)
    assert await offsets.copy(ENDS | {PLACE: 70}) == 1


async def test_what_a_round_does_not_come_to_is_left_to_the_next(
    trees: tuple[EmbeddedCoordination, EmbeddedCoordination], monkeypatch: pytest.MonkeyPatch
) -> None:
    source, target = trees
    monkeypatch.setattr(paper_offsets, "GROUPS_PER_ROUND", 2)
    for group in ("a", "b", "c", "d", "e"):
        await store(source, group, 30)
        if group < "d":
            await target.create(paths.consumer(group, "ann"), b"{}", ephemeral=True, make_parents=True)
    offsets = PaperOffsets(source, target)
    assert [await offsets.copy(ENDS) for _ in range(4)] == [0, 1, 1, 0], "those that are in use hold up no others"


async def test_nothing_is_copied_where_no_group_was(trees: tuple[EmbeddedCoordination, EmbeddedCoordination]) -> None:
    assert await PaperOffsets(*trees).copy(ENDS) == 0
