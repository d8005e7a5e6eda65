import asyncio
import logging
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from millstream.broker.coordinators.loader import replay
from millstream.coordinator_shard import CoordinatorRecord
from millstream.groups.classic.records import GroupMetadata, MemberRecord, group_metadata_record
from millstream.groups.offsets.records import CommittedOffset, encode_offset_key, encode_offset_value
from millstream.groups.settings import GroupSettings
from millstream.groups.shard import GroupCoordinatorShard
from tests.unit.broker.group_client import find, group_server


def committed(group: str, offset: int) -> CoordinatorRecord:
    return CoordinatorRecord(encode_offset_key(group, "orders", 0), encode_offset_value(CommittedOffset(offset, 0, "", 1_700_000_000_000)))


@pytest.mark.parametrize("chunk_bytes", [1, 5_000_000])
async def test_every_record_is_applied_in_order_whatever_is_read_at_once(tmp_path: Path, chunk_bytes: int) -> None:
    async with group_server(tmp_path) as server:
        await find(server)
        context = server._groups.runtime.context("group")
        for offset in range(20):
            context._append([committed("group", offset), committed(f"group-{offset}", offset)])
        shard = GroupCoordinatorShard(GroupSettings())
        with ThreadPoolExecutor(1) as executor:
            assert await replay(context.partition, shard, executor=executor, chunk_bytes=chunk_bytes) == 40
        shard.loaded(0)
        assert len(shard.list_groups()) == 21
        found = shard.fetch_offsets("group", [("orders", None, [0])])
        assert found["topics"] == shard.fetch_offsets("group-19", [("orders", None, [0])])["topics"]


async def test_record_that_makes_no_sense_is_logged_and_passed_over(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    async with group_server(tmp_path) as server:
        await find(server)
        context = server._groups.runtime.context("group")
        context._append(
            [CoordinatorRecord(b"\x00\x01", b"cut off"), committed("group", 7), CoordinatorRecord(b"\x00\x63", b"a kind of the future")]
        )
        shard = GroupCoordinatorShard(GroupSettings())
        with caplog.at_level(logging.ERROR), ThreadPoolExecutor(1) as executor:
            assert await replay(context.partition, shard, executor=executor, chunk_bytes=1000) == 3
        assert "a record of the batch at offset 0 is passed over" in caplog.text
        assert len(caplog.records) == 1
        shard.loaded(0)
        assert len(shard.list_groups()) == 1


async def test_generation_that_names_a_member_twice_keeps_no_other_group_from_being_read(tmp_path: Path) -> None:
    """Written by a tool, or by a broker with a bug: the partition, and all that are loaded after it, would stay without a coordinator."""
    twice = tuple(MemberRecord("member", instance, "client", "/host", 1000, 1000, b"", b"") for instance in ("one", "two", None))
    async with group_server(tmp_path) as server:
        await find(server)
        context = server._groups.runtime.context("group")
        context._append([group_metadata_record("odd", GroupMetadata("consumer", 1, "range", "member", 0, twice)), committed("group", 7)])
        shard = GroupCoordinatorShard(GroupSettings())
        with ThreadPoolExecutor(1) as executor:
            assert await replay(context.partition, shard, executor=executor, chunk_bytes=1000) == 2
        shard.loaded(0)
        assert len(shard.list_groups()) == 2


async def test_batch_that_is_rotten_is_logged_and_passed_over(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    async with group_server(tmp_path) as server:
        await find(server)
        context = server._groups.runtime.context("group")
        context._append([committed("lost", 1)])
        context._append([committed("group", 7)])
        segment = context.partition.log.path / f"{0:020}.log"
        content = bytearray(segment.read_bytes())
        content[70] ^= 0xFF
        segment.write_bytes(content)
        shard = GroupCoordinatorShard(GroupSettings())
        with caplog.at_level(logging.ERROR), ThreadPoolExecutor(1) as executor:
            await replay(context.partition, shard, executor=executor, chunk_bytes=1000)
        assert "the batch at offset 0 is passed over" in caplog.text
        shard.loaded(0)
        assert len(shard.list_groups()) == 1


async def test_loop_goes_on_while_a_long_log_is_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("millstream.broker.coordinators.loader.SLICE_SECONDS", 0.0)
    async with group_server(tmp_path) as server:
        await find(server)
        context = server._groups.runtime.context("group")
        context._append([committed("group", offset) for offset in range(2_000)])
        turns = 0

        async def count() -> None:
            nonlocal turns
            while True:
                await asyncio.sleep(0)
                turns += 1

        counting = asyncio.create_task(count())
        with ThreadPoolExecutor(1) as executor:
            await replay(context.partition, GroupCoordinatorShard(GroupSettings()), executor=executor, chunk_bytes=1_000_000)
        counting.cancel()
        assert turns >= 10
