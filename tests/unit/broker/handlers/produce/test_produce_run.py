import asyncio
from dataclasses import replace
from pathlib import Path

import pytest

from millstream.coordination.partition_state import PartitionState
from millstream.log.config import LogConfig
from tests.batches import encode_batch
from tests.unit.broker.conftest import Ends
from tests.unit.broker.handlers.produce_clients import TOPIC, answers, request, served
from tests.unit.cluster.hosting import view_of
from tests.waiting import eventually

VERSIONS = (3, 7, 9, 12, 13)


@pytest.mark.parametrize("version", VERSIONS)
async def test_requests_of_a_run_are_answered_in_order_with_their_own_offsets(tmp_path: Path, ends: Ends, version: int) -> None:
    async with served(tmp_path, ends) as (connection, replicas):
        ends.client.sendall(b"".join(request(number, version=version) for number in range(50)))
        assert await answers(ends, version, 50) == [(number, 0, 0, number) for number in range(50)]
        assert connection.lane is not None
        assert replicas.partition("orders", 0).log.log_end_offset == 50


async def test_run_goes_over_several_partitions(tmp_path: Path, ends: Ends) -> None:
    async with served(tmp_path, ends):
        ends.client.sendall(b"".join(request(number, partition=number % 3) for number in range(30)))
        assert await answers(ends, 9, 30) == [(number, number % 3, 0, number // 3) for number in range(30)]


async def test_bad_batch_in_a_run_is_refused_alone(tmp_path: Path, ends: Ends) -> None:
    damaged = bytearray(encode_batch([b"x"]))
    damaged[-1] ^= 0xFF
    async with served(tmp_path, ends):
        batches = [None, None, bytes(damaged), None]
        ends.client.sendall(b"".join(request(number, batch=batch) for number, batch in enumerate(batches)))
        assert await answers(ends, 9, 4) == [(0, 0, 0, 0), (1, 0, 0, 1), (2, 0, 2, -1), (3, 0, 0, 2)]


async def test_unknown_partition_in_a_run_is_refused_alone(tmp_path: Path, ends: Ends) -> None:
    async with served(tmp_path, ends):
        ends.client.sendall(b"".join(request(number, partition=partition) for number, partition in enumerate((0, 0, 9, 1))))
        assert await answers(ends, 9, 4) == [(0, 0, 0, 0), (1, 0, 0, 1), (2, 9, 3, -1), (3, 1, 0, 0)]


async def test_request_that_looks_different_ends_the_run_and_is_handled_after_it(tmp_path: Path, ends: Ends) -> None:
    async with served(tmp_path, ends):
        mixed = [request(0), request(1), request(2, client_id="other"), request(3, client_id="other"), request(4)]
        ends.client.sendall(b"".join(mixed))
        assert await answers(ends, 9, 5) == [(number, 0, 0, number) for number in range(5)]


async def test_acks_0_is_appended_and_not_answered(tmp_path: Path, ends: Ends) -> None:
    async with served(tmp_path, ends) as (_, replicas):
        ends.client.sendall(b"".join(request(number, acks=0) for number in range(9)) + request(9))
        assert await answers(ends, 9, 1) == [(9, 0, 0, 9)]
        assert replicas.partition("orders", 0).log.log_end_offset == 10


async def test_failure_with_acks_0_closes_the_connection(tmp_path: Path, ends: Ends) -> None:
    async with served(tmp_path, ends):
        ends.client.sendall(b"".join(request(number, acks=0, partition=partition) for number, partition in enumerate((0, 0, 7))))
        ends.client.setblocking(False)
        assert await asyncio.wait_for(asyncio.get_running_loop().sock_recv(ends.client, 1), 10) == b""


REPLICATED = replace(TOPIC, partitions=tuple(PartitionState((1, 2), 1, 0, (1, 2)) for _ in TOPIC.partitions))


async def test_run_waits_as_a_whole_for_the_followers_of_its_partitions(tmp_path: Path, ends: Ends) -> None:
    async with served(tmp_path, ends) as (_, replicas):
        await replicas.apply(view_of(REPLICATED))
        leaders = [replicas.partition("orders", index).as_leader() for index in range(2)]
        ends.client.sendall(b"".join(request(number, partition=number % 2, acks=-1) for number in range(10)))
        await eventually(lambda: all(leader.log.log_end_offset == 5 for leader in leaders))
        ends.client.setblocking(False)
        leaders[0].replica_fetched(2, 1, 5, 0)
        leaders[1].replica_fetched(2, 1, 4, 0)
        await asyncio.sleep(0)
        assert [leader.log.log_end_offset for leader in leaders] == [5, 5]
        ends.client.sendall(request(10, partition=0, acks=-1))
        await eventually(lambda: leaders[0].log.log_end_offset == 6)
        leaders[0].replica_fetched(2, 1, 6, 0)
        leaders[1].replica_fetched(2, 1, 5, 0)
        expected = [(number, number % 2, 0, number // 2) for number in range(10)]
        assert await answers(ends, 9, 11) == [*expected, (10, 0, 0, 5)]


async def test_what_a_run_has_committed_is_acknowledged_when_the_leader_loses_the_rest(tmp_path: Path, ends: Ends) -> None:
    async with served(tmp_path, ends) as (_, replicas):
        await replicas.apply(view_of(REPLICATED))
        leader = replicas.partition("orders", 0).as_leader()
        ends.client.sendall(b"".join(request(number, acks=-1) for number in range(4)))
        await eventually(lambda: leader.log.log_end_offset == 4)
        leader.replica_fetched(2, 1, 2, 0)
        moved = replace(REPLICATED, partitions=tuple(PartitionState((1, 2), 2, 1, (1, 2)) for _ in TOPIC.partitions))
        await replicas.apply(view_of(moved))
        assert [(answer[0], answer[2]) for answer in await answers(ends, 9, 4)] == [(0, 0), (1, 0), (2, 6), (3, 6)]
        assert not replicas.partition("orders", 0).high_watermark.is_awaited


async def test_answers_wait_for_the_flush_in_their_order(tmp_path: Path, ends: Ends) -> None:
    async with served(tmp_path, ends, LogConfig(flush_messages=1)) as (_, replicas):
        ends.client.sendall(b"".join(request(number, acks=-1 if number % 2 else 1) for number in range(6)))
        partition = replicas.partition("orders", 0)
        await eventually(lambda: partition.log.log_end_offset == 6)
        ends.client.setblocking(False)
        with pytest.raises(BlockingIOError):
            ends.client.recv(1)
        flush = partition.log.begin_flush()
        assert flush is not None
        flush.run()
        partition.log.complete_flush(flush, now_ms=0)
        partition.flushed()
        assert await answers(ends, 9, 6) == [(number, 0, 0, number) for number in range(6)]
