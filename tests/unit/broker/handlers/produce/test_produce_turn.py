"""Small requests of several clients that came in one turn of the loop."""

import asyncio
import socket
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import pytest

from millstream.broker.handlers.produce import produce_turn
from millstream.broker.network.connection import Connection
from millstream.broker.network.event_loop import BrokerLoop
from millstream.broker.network.request_times import PRODUCE, TOTAL_US
from millstream.cluster import replicas as hosting
from millstream.cluster.replicas import Replicas
from millstream.cluster.topic_access import Client, Operation
from millstream.errors import CorruptMessage, NotLeaderOrFollower, PolicyViolation
from millstream.log.log import Log
from tests.batches import encode_batch
from tests.unit.broker.conftest import Ends
from tests.unit.broker.handlers.produce_clients import answers, request, served_crowd
from tests.waiting import eventually

SIZE = 6


@pytest.fixture
def crowd() -> Iterator[list[Ends]]:
    made = [Ends(*socket.socketpair()) for _ in range(SIZE)]
    for ends in made:
        ends.broker.setblocking(False)
    yield made
    for ends in made:
        ends.broker.close()
        ends.client.close()


@pytest.fixture
def runs(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """How many batches each call has written."""
    found: list[int] = []
    append = Log.append_run_as_leader

    def counted(self: Log, batches: list[bytes], **options: object) -> object:
        found.append(len(batches))
        return append(self, batches, **options)  # type: ignore[arg-type]

    monkeypatch.setattr(Log, "append_run_as_leader", counted)
    return found


async def open_lanes(crowd: Sequence[Ends], connections: Sequence[Connection], **options: object) -> None:
    """Let every client send the request that the others look like; from now on all sockets of a turn are ready together."""
    for number, ends in enumerate(crowd):
        ends.client.sendall(request(number, **options))  # type: ignore[arg-type]
        await answers(ends, 9, 1)
    for connection in connections:
        assert connection.lane is not None
        connection.is_turn_shared = lambda: True


async def test_each_client_gets_the_offset_of_its_own_batch_and_one_call_writes_all(
    tmp_path: Path, crowd: list[Ends], runs: list[int]
) -> None:
    async with served_crowd(tmp_path, crowd) as (connections, replicas):
        await open_lanes(crowd, connections)
        runs.clear()
        for number, ends in enumerate(crowd):
            ends.client.sendall(request(100 + number, batch=encode_batch([b"%d" % number] * (number + 1))))
        found = [await answers(ends, 9, 1) for ends in crowd]
        assert found == [[(100 + number, 0, 0, SIZE + sum(range(1, number + 1)))] for number in range(SIZE)]
        assert runs == [SIZE]
        assert replicas.partition("orders", 0).produce_requests == 2 * SIZE
        times = connections[0].times.by_key[PRODUCE]
        assert sum(times[:TOTAL_US]) == 2 * SIZE


async def test_other_partitions_and_acks_are_written_apart(tmp_path: Path, crowd: list[Ends], runs: list[int]) -> None:
    async with served_crowd(tmp_path, crowd) as (connections, _replicas):
        await open_lanes(crowd, connections)
        runs.clear()
        for number, ends in enumerate(crowd):
            ends.client.sendall(request(number, partition=number % 2))
        found = [await answers(ends, 9, 1) for ends in crowd]
        assert found == [[(number, number % 2, 0, number // 2 + (0 if number % 2 else SIZE))] for number in range(SIZE)]
        assert runs == [SIZE // 2] * 2


async def test_what_is_wrong_with_one_batch_is_no_harm_to_others(tmp_path: Path, crowd: list[Ends]) -> None:
    async with served_crowd(tmp_path, crowd) as (connections, _replicas):
        await open_lanes(crowd, connections)
        broken = bytearray(encode_batch([b"x"]))
        broken[-1] ^= 0xFF
        for number, ends in enumerate(crowd):
            ends.client.sendall(request(number, batch=bytes(broken) if number == 2 else None))
        codes = [(await answers(ends, 9, 1))[0][2:] for ends in crowd]
        assert codes == [(0, 6), (0, 7), (CorruptMessage.code, -1), (0, 8), (0, 9), (0, 10)]


async def test_who_may_not_write_is_refused_alone(tmp_path: Path, crowd: list[Ends], monkeypatch: pytest.MonkeyPatch) -> None:
    async with served_crowd(tmp_path, crowd) as (connections, _replicas):
        for number, ends in enumerate(crowd):
            ends.client.sendall(request(number, client_id=f"client-{number}"))
            await answers(ends, 9, 1)
            connections[number].is_turn_shared = lambda: True

        def check(client: Client, _operation: Operation, _topic: str) -> None:
            if client.client_id in {"client-1", "client-4"}:
                raise PolicyViolation("not these")

        monkeypatch.setattr(hosting, "check_access", check)
        for number, ends in enumerate(crowd):
            ends.client.sendall(request(number, client_id=f"client-{number}"))
        codes = [(await answers(ends, 9, 1))[0][2:] for ends in crowd]
        refused = (PolicyViolation.code, -1)
        assert codes == [(0, 6), refused, (0, 7), (0, 8), refused, (0, 9)]


async def test_a_partition_that_is_not_led_any_more_is_said_to_all(
    tmp_path: Path, crowd: list[Ends], monkeypatch: pytest.MonkeyPatch
) -> None:
    async with served_crowd(tmp_path, crowd) as (connections, replicas):
        await open_lanes(crowd, connections)

        def partition_for(_self: Replicas, *_asked: object) -> None:
            raise NotLeaderOrFollower("not here")

        monkeypatch.setattr(Replicas, "partition_for", partition_for)
        for number, ends in enumerate(crowd):
            ends.client.sendall(request(number))
        assert [(await answers(ends, 9, 1))[0][2] for ends in crowd] == [NotLeaderOrFollower.code] * SIZE
        assert replicas.partition("orders", 0).log.log_end_offset == SIZE


@pytest.mark.parametrize("unusual", [lambda: encode_batch([b"x" * produce_turn.SMALL_BYTES]), lambda: encode_batch([b"x"] * 3)])
async def test_large_batches_and_whole_runs_are_written_at_once(
    tmp_path: Path, crowd: list[Ends], runs: list[int], unusual: Callable[[], bytes]
) -> None:
    async with served_crowd(tmp_path, crowd) as (connections, _replicas):
        await open_lanes(crowd, connections)
        runs.clear()
        batch = unusual()
        count = 1 if len(batch) > produce_turn.SMALL_BYTES else 2
        for ends in crowd:
            ends.client.sendall(request(1, batch=batch) * count)
        for ends in crowd:
            await answers(ends, 9, count)
        assert runs == [count] * SIZE


async def test_enough_requests_do_not_wait_for_more(
    tmp_path: Path, crowd: list[Ends], runs: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(produce_turn, "MAX_REQUESTS", 4)
    async with served_crowd(tmp_path, crowd) as (connections, _replicas):
        await open_lanes(crowd, connections)
        runs.clear()
        for number, ends in enumerate(crowd):
            ends.client.sendall(request(number))
        assert [await answers(ends, 9, 1) for ends in crowd] == [[(number, 0, 0, SIZE + number)] for number in range(SIZE)]
        assert runs == [4, 2]


async def test_a_client_that_goes_before_the_end_of_the_turn_is_appended_for(tmp_path: Path, crowd: list[Ends]) -> None:
    async with served_crowd(tmp_path, crowd) as (connections, replicas):
        await open_lanes(crowd, connections)
        turn = connections[0].call_at_end_of_turn

        def close_one(callback: Callable[[], object]) -> None:
            turn(connections[1].close)
            turn(callback)

        connections[0].call_at_end_of_turn = close_one
        for number, ends in enumerate(crowd):
            ends.client.sendall(request(number))
        for number, ends in enumerate(crowd):
            if number != 1:
                assert await answers(ends, 9, 1) == [(number, 0, 0, SIZE + number)]
        assert crowd[1].client.recv(100) == b""
        assert replicas.partition("orders", 0).log.log_end_offset == 2 * SIZE


async def test_a_lane_that_is_closed_leaves_nothing_behind(tmp_path: Path, crowd: list[Ends]) -> None:
    async with served_crowd(tmp_path, crowd) as (connections, replicas):
        await open_lanes(crowd, connections)
        for connection in connections:
            connection.call_at_end_of_turn = lambda _callback: None  # the turn goes on
        log = replicas.partition("orders", 0).log
        crowd[0].client.sendall(request(1))
        crowd[1].client.sendall(request(1))
        await eventually(lambda: connections[1].bytes_received > connections[2].bytes_received)
        assert log.log_end_offset == SIZE
        connections[0].identify(connections[0].session._replace())
        assert log.log_end_offset == SIZE + 2
        assert [(await answers(ends, 9, 1))[0][3] for ends in crowd[:2]] == [SIZE, SIZE + 1]


async def test_a_request_of_another_kind_comes_after_what_is_kept(tmp_path: Path, crowd: list[Ends]) -> None:
    async with served_crowd(tmp_path, crowd) as (connections, _replicas):
        await open_lanes(crowd, connections)
        connections[0].call_at_end_of_turn = lambda _callback: None  # the turn goes on
        crowd[0].client.sendall(request(1))
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        crowd[0].client.sendall(request(2, others=[1]))
        data = await asyncio.wait_for(asyncio.get_running_loop().sock_recv(crowd[0].client, 1 << 20), 10)
        assert int.from_bytes(data[4:8]) == 1
        assert int.from_bytes(data[8 + int.from_bytes(data[:4]) : 12 + int.from_bytes(data[:4])]) == 2


async def test_a_mistake_of_ours_closes_those_whom_it_concerns(
    tmp_path: Path, crowd: list[Ends], monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    async with served_crowd(tmp_path, crowd) as (connections, _replicas):
        await open_lanes(crowd, connections)

        def partition_for(_self: Replicas, *_asked: object) -> None:
            raise RuntimeError("a mistake")

        monkeypatch.setattr(Replicas, "partition_for", partition_for)
        for ends in crowd[:3]:
            ends.client.sendall(request(1))
        await eventually(lambda: all(connection.is_closed for connection in connections[:3]))
        assert not any(connection.is_closed for connection in connections[3:])
        assert "a turn of 3 Produce requests failed" in caplog.text


def test_on_the_loop_of_a_broker_sockets_that_are_ready_together_share_a_turn(tmp_path: Path, crowd: list[Ends], runs: list[int]) -> None:
    async def work() -> None:
        async with asyncio.timeout(20), served_crowd(tmp_path, crowd) as (_connections, _replicas):
            for number, ends in enumerate(crowd):
                ends.client.sendall(request(number))
            for ends in crowd:
                await answers(ends, 9, 1)
            runs.clear()
            for number, ends in enumerate(crowd):
                ends.client.sendall(request(number))
            assert [await answers(ends, 9, 1) for ends in crowd] == [[(number, 0, 0, SIZE + number)] for number in range(SIZE)]
            assert runs == [SIZE]

    with asyncio.Runner(loop_factory=BrokerLoop) as runner:
        runner.run(work())


def test_answers_keep_their_order_when_requests_that_were_held_come_before_those_of_a_turn(tmp_path: Path, crowd: list[Ends]) -> None:
    async def work() -> None:
        loop = asyncio.get_running_loop()
        async with asyncio.timeout(20), served_crowd(tmp_path, crowd) as (connections, _replicas):
            # Of two clients one request is handled, and opens a lane; the other one waits.
            for number, partition in ((0, 1), (1, 0)):
                connections[number].hold()
                crowd[number].client.sendall(b"".join(request(correlation, partition=partition) for correlation in range(2)))
            await eventually(lambda: connections[0]._has_kept_frames and connections[1]._has_kept_frames)
            for ends in crowd[:2]:
                ends.client.sendall(request(2, partition=1))
            # Both go on in one turn, in which several sockets are ready.
            for number in (0, 1):
                loop.add_reader(crowd[2 + number].client.fileno(), release, loop, crowd[2 + number], connections[number])
                crowd[2 + number].broker.send(b"x")
            found = [await answers(ends, 9, 3) for ends in crowd[:2]]
            assert [[correlation for correlation, *_ in own] for own in found] == [[0, 1, 2]] * 2

    def release(loop: asyncio.AbstractEventLoop, ends: Ends, connection: Connection) -> None:
        loop.remove_reader(ends.client.fileno())
        connection.release()

    with asyncio.Runner(loop_factory=BrokerLoop) as runner:
        runner.run(work())
