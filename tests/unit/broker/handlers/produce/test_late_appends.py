"""Batches with very many records: no other client waits for them, and what their producer sends behind them comes behind them."""

import asyncio
from functools import cache
from pathlib import Path
from threading import current_thread, main_thread
from typing import Any

import pytest

from millstream.broker.handlers.produce.produce_run import ProduceRun
from millstream.broker.network.frame_reader import ReceiveBuffers
from millstream.broker.storage.record_turns import REBUILT_BYTES_LIKE_A_RECORD, RECORDS_PER_SLICE, RECORDS_PER_TURN, SMALL_REBUILT_BYTES
from millstream.broker.storage.unfolding import MAX_IN_WORK
from millstream.buffer import Buffer
from millstream.coordination.partition_state import PartitionState
from millstream.errors import InvalidRecord, InvalidTimestamp, NotLeaderOrFollower, UnsupportedCompressionType
from millstream.log.config import LogConfig
from millstream.log.records.record_check import RecordScan
from millstream.wire import messages
from millstream.wire.api import ApiKey
from millstream.wire.batch import BatchHeader
from millstream.wire.compression import Codec, compress
from millstream.wire.records import recompressed
from tests.batches import encode_batch, encode_block, encode_record, now_ms
from tests.connection import encode_request
from tests.manual_clock import ManualClock
from tests.unit.broker.conftest import Ends
from tests.unit.broker.handlers.produce_clients import TOPIC, answers, request, served
from tests.waiting import eventually

COMPACTED = LogConfig(cleanup_policy=frozenset({"compact"}))
MANY = 4 * RECORDS_PER_TURN
BATCHES_AT_ONCE = 30


class Turns:
    """Counts the turns of the loop, and the records that are looked at in each."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.number = 0
        self.records: dict[int, int] = {}
        self._is_over = False
        real = RecordScan.advance

        def counted(scan: RecordScan, most: int) -> bool:
            before = scan.number
            try:
                return real(scan, most)
            finally:
                self.records[self.number] = self.records.get(self.number, 0) + scan.number - before

        monkeypatch.setattr(RecordScan, "advance", counted)

    def start(self) -> None:
        self.number += 1
        if not self._is_over:
            asyncio.get_running_loop().call_soon(self.start)

    def stop(self) -> None:
        self._is_over = True

    async def first_slice(self) -> None:
        """Until the first records have been looked at."""
        while not self.records:  # noqa: ASYNC110 -- the turns themselves are what it waits for
            await asyncio.sleep(0)


@pytest.fixture
def turns(monkeypatch: pytest.MonkeyPatch) -> Turns:
    return Turns(monkeypatch)


def many(count: int = MANY, *, codec: Codec = Codec.NONE, keyless: frozenset[int] = frozenset()) -> bytes:
    block = compress(records_of_many(count, keyless), codec)
    return encode_block(block, count, timestamp=now_ms(), max_timestamp=now_ms(), attributes=codec)


@cache
def records_of_many(count: int, keyless: frozenset[int]) -> bytes:
    return b"".join(encode_record(number, b"", key=None if number in keyless else b"k") for number in range(count))


def keyed(value: bytes = b"v") -> bytes:
    return encode_batch([value], keys=[b"k"])


@pytest.mark.parametrize("codec", [Codec.NONE, Codec.ZSTD])
async def test_a_large_batch_takes_many_turns_and_those_behind_it_come_behind_it(
    tmp_path: Path, ends: Ends, turns: Turns, caplog: pytest.LogCaptureFixture, codec: Codec
) -> None:
    async with served(tmp_path, ends, COMPACTED) as (connection, replicas):
        turns.start()
        batches = [keyed(), many(codec=codec), keyed(), many(codec=codec), keyed()]
        await send(ends, b"".join(request(number, batch=batch, partition=0) for number, batch in enumerate(batches)))
        offsets = [0, 1, MANY + 1, MANY + 2, 2 * MANY + 2]
        assert await answers(ends, 9, 5) == [(number, 0, 0, offset) for number, offset in enumerate(offsets)]
        turns.stop()
        assert replicas.partition("orders", 0).log.log_end_offset == 2 * MANY + 3
        assert connection.lane is None
    assert not caplog.records
    assert sum(turns.records.values()) == 2 * MANY + 3
    assert max(turns.records.values()) <= RECORDS_PER_TURN
    assert len(turns.records) >= 2 * MANY // RECORDS_PER_SLICE


async def test_what_is_behind_a_large_batch_comes_behind_it_also_where_zstd_is_refused_between_them(tmp_path: Path, ends: Ends) -> None:
    batches = (many(), many(1, codec=Codec.ZSTD), keyed())
    topics = [{"name": "orders", "partition_data": [{"index": 0, "records": batch} for batch in batches]}]
    fields = {"transactional_id": None, "acks": 1, "timeout_ms": 30_000, "topic_data": topics}
    async with served(tmp_path, ends, COMPACTED):
        await send(ends, encode_request(ApiKey.PRODUCE, 6, fields, correlation_id=0, client_id="me"))
        found = await one_topic(ends, version=6)
    assert [(one.error_code, one.base_offset) for one in found] == [(0, 0), (UnsupportedCompressionType.code, -1), (0, MANY)]


async def test_many_batches_of_one_receive_do_not_make_a_long_turn(tmp_path: Path, ends: Ends, turns: Turns) -> None:
    """Each is small enough for one turn, all of them are not; compressed they are a few bytes each."""
    count = RECORDS_PER_TURN // 2
    batch = many(count, codec=Codec.ZSTD)
    async with served(tmp_path, ends, COMPACTED):
        turns.start()
        await send(ends, b"".join(request(number, batch=batch, partition=number % 3) for number in range(BATCHES_AT_ONCE)))
        found = await answers(ends, 9, BATCHES_AT_ONCE)
        turns.stop()
    assert found == [(number, number % 3, 0, number // 3 * count) for number in range(BATCHES_AT_ONCE)]
    assert max(turns.records.values()) <= RECORDS_PER_TURN + MAX_IN_WORK * RECORDS_PER_SLICE
    assert len(turns.records) >= BATCHES_AT_ONCE // 2


@pytest.mark.parametrize("level", [-1, 9])
async def test_what_is_compressed_again_does_not_make_a_long_turn(
    tmp_path: Path, ends: Ends, turns: Turns, monkeypatch: pytest.MonkeyPatch, level: int
) -> None:
    """Few records, small when they come, and each takes a millisecond or more; a level of the topic's own may take much longer."""
    rebuilt: dict[int, int] = {}

    def counted(header: BatchHeader, payload: Buffer, *, codec: Codec, level: int | None) -> bytes:
        if current_thread() is main_thread():
            rebuilt[turns.number] = rebuilt.get(turns.number, 0) + len(payload)
        return recompressed(header, payload, codec=codec, level=level)

    monkeypatch.setattr("millstream.log.records.record_check.recompressed", counted)
    block = compress(encode_record(0, b"text " * (SMALL_REBUILT_BYTES // 6)), Codec.ZSTD)
    batch = encode_block(block, 1, timestamp=now_ms(), max_timestamp=now_ms(), attributes=Codec.ZSTD)
    async with served(tmp_path, ends, LogConfig(compression_type="gzip", compression_gzip_level=level)):
        turns.start()
        await send(ends, b"".join(request(number, batch=batch) for number in range(BATCHES_AT_ONCE)))
        assert await answers(ends, 9, BATCHES_AT_ONCE) == [(number, 0, 0, number) for number in range(BATCHES_AT_ONCE)]
        turns.stop()
    assert max(rebuilt.values(), default=0) <= RECORDS_PER_TURN * REBUILT_BYTES_LIKE_A_RECORD + SMALL_REBUILT_BYTES
    assert bool(rebuilt) == (level == -1)


async def test_what_waits_to_be_looked_into_counts_as_in_flight(tmp_path: Path, ends: Ends, turns: Turns) -> None:
    """Or else requests that were received would take any amount of memory, whatever `queued.max.request.bytes` says."""
    batch = many()
    buffers = ReceiveBuffers(max_held_bytes=1 << 26)
    async with served(tmp_path, ends, COMPACTED, buffers=buffers):
        turns.start()
        await send(ends, request(0, batch=batch, others=(1, 2)))
        await turns.first_slice()
        assert buffers.held_bytes == 3 * len(batch)
        await one_topic(ends)
        turns.stop()
        await eventually(lambda: buffers.held_bytes == 0)


async def test_bad_records_of_a_large_batch_are_named(tmp_path: Path, ends: Ends) -> None:
    keyless = frozenset({3, RECORDS_PER_TURN + 7, MANY - 1})
    async with served(tmp_path, ends, COMPACTED) as (_, replicas):
        await send(ends, request(0, batch=many(codec=Codec.LZ4, keyless=keyless)))
        await send(ends, request(1, batch=keyed()))
        answer = await one_answer(ends)
        assert (answer.error_code, answer.log_start_offset) == (InvalidRecord.code, 0)
        assert [error.batch_index for error in answer.record_errors] == sorted(keyless)
        assert await answers(ends, 9, 1) == [(1, 0, 0, 0)]
        assert replicas.partition("orders", 0).log.log_end_offset == 1


async def test_a_request_names_no_more_records_than_a_batch_may(tmp_path: Path, ends: Ends) -> None:
    """Compressed they are next to nothing, and an answer that names each would take seconds to write."""
    batch = many(RECORDS_PER_TURN, codec=Codec.ZSTD, keyless=frozenset(range(RECORDS_PER_TURN)))
    async with served(tmp_path, ends, COMPACTED):
        await send(ends, request(0, batch=batch, others=(1, 2)))
        found = await one_topic(ends)
    assert {answer.error_code for answer in found} == {InvalidRecord.code}
    assert [len(answer.record_errors) for answer in found] == [RECORDS_PER_TURN, RECORDS_PER_TURN, 0]


@pytest.mark.parametrize("before", [0, 3])
async def test_times_that_are_refused_by_the_header_are_named_too_also_in_a_run(tmp_path: Path, ends: Ends, before: int) -> None:
    late = encode_batch([b"a", b"b", b"c"], timestamp_step=3_000_000)
    async with served(tmp_path, ends):
        await send(ends, b"".join(request(number) for number in range(before)) + request(before, batch=late) + request(before + 1))
        if before:
            assert await answers(ends, 9, before) == [(number, 0, 0, number) for number in range(before)]
        answer = await one_answer(ends)
        assert answer.error_code == InvalidTimestamp.code
        assert [error.batch_index for error in answer.record_errors] == [2]
        assert await answers(ends, 9, 1) == [(before + 1, 0, 0, before)]


async def test_large_batch_without_acks_is_appended_or_closes_the_connection(tmp_path: Path, ends: Ends) -> None:
    async with served(tmp_path, ends, COMPACTED) as (connection, replicas):
        await send(ends, request(0, batch=many(), acks=0) + request(1, batch=keyed()))
        assert await answers(ends, 9, 1) == [(1, 0, 0, MANY)]
        await send(ends, request(2, batch=many(keyless=frozenset({9})), acks=0) + request(3, batch=keyed()))
        loop = asyncio.get_running_loop()
        assert await asyncio.wait_for(loop.sock_recv(ends.client, 1), 10) == b""
        assert connection.is_closed
        assert replicas.partition("orders", 0).log.log_end_offset == MANY + 1


async def test_options_that_change_while_a_batch_is_looked_into_hold_for_it(tmp_path: Path, ends: Ends, turns: Turns) -> None:
    checking = LogConfig(check_records=True)
    async with served(tmp_path, ends, checking) as (_, replicas):
        log = replicas.partition("orders", 0).log
        turns.start()
        await send(ends, request(0, batch=many(keyless=frozenset({9}))))
        await turns.first_slice()
        log.update_config(COMPACTED)
        assert [found[2] for found in await answers(ends, 9, 1)] == [InvalidRecord.code]
        turns.stop()
    assert max(turns.records.values()) <= RECORDS_PER_TURN
    assert sum(turns.records.values()) == 2 * MANY


async def test_a_batch_that_took_long_gets_the_time_at_which_it_is_appended(tmp_path: Path, ends: Ends, turns: Turns) -> None:
    """Others were appended meanwhile: the times of a log that stamps them itself must not go back."""
    clock = ManualClock(now_ms())
    stamped = LogConfig(cleanup_policy=frozenset({"compact"}), message_timestamp_type="LogAppendTime")
    async with served(tmp_path, ends, stamped, clock=clock):
        turns.start()
        await send(ends, request(0, batch=many()))
        await turns.first_slice()
        clock.advance(1_000)
        assert (await one_answer(ends)).log_append_time_ms == clock.now_ms()
        turns.stop()


async def test_no_lane_stays_open_when_records_come_to_be_looked_into(tmp_path: Path, ends: Ends, turns: Turns) -> None:
    async with served(tmp_path, ends) as (connection, replicas):
        turns.start()
        await send(ends, request(0) + request(1))
        await answers(ends, 9, 2)
        assert connection.lane is not None
        replicas.partition("orders", 0).log.update_config(COMPACTED)
        await send(ends, request(2, batch=many()) + request(3, batch=keyed()))
        assert await answers(ends, 9, 2) == [(2, 0, 0, 2), (3, 0, 0, MANY + 2)]
        turns.stop()
        assert max(turns.records.values()) <= RECORDS_PER_TURN


async def test_no_lane_leads_into_another_topic_of_the_same_name(tmp_path: Path, ends: Ends) -> None:
    async with served(tmp_path, ends) as (connection, replicas):
        await send(ends, request(0))
        await answers(ends, 9, 1)
        assert isinstance(connection.lane, ProduceRun)
        assert connection.lane.take(memoryview(request(1))[4:])
        replicas.partition("orders", 0).log.abandon()
        assert not connection.lane.take(memoryview(request(2))[4:])


async def test_what_another_leader_wrote_while_a_batch_was_looked_into_acknowledges_nothing(
    tmp_path: Path, ends: Ends, turns: Turns
) -> None:
    """The first batch is appended and its answer waits for the second; meanwhile it is cut off, and others are committed in its place."""
    with_followers = PartitionState((1, 2, 3), leader=1, leader_epoch=1, in_sync_replicas=(1, 2, 3), partition_epoch=1)
    led_by_2 = with_followers._replace(leader=2, leader_epoch=2, partition_epoch=2)
    records = [{"index": 0, "records": keyed()}, {"index": 1, "records": many()}]
    fields = {
        "transactional_id": None,
        "acks": -1,
        "timeout_ms": 10_000,
        "topic_data": [{"name": "orders", "topic_id": TOPIC.topic_id, "partition_data": records}],
    }
    async with served(tmp_path, ends, COMPACTED) as (_, replicas):
        first, second = (replicas.partition("orders", index) for index in (0, 1))
        first.apply(with_followers)
        turns.start()
        await send(ends, encode_request(ApiKey.PRODUCE, 9, fields, correlation_id=0, client_id="me"))
        await turns.first_slice()
        assert (first.log.log_end_offset, second.log.log_end_offset) == (1, 0)
        first.apply(led_by_2)
        assert first.following is not None
        await first.following.truncate_to(0)
        others = encode_batch([b"other"] * 5, keys=[b"k"] * 5, leader_epoch=2)
        first.following.append(memoryview(others), high_watermark=5, leader_log_start=0)
        found = await one_topic(ends)
        turns.stop()
    assert [one.error_code for one in found] == [NotLeaderOrFollower.code, 0]


async def send(ends: Ends, data: bytes) -> None:
    """Send without standing in the way of the broker, which runs on the same loop."""
    ends.client.setblocking(False)
    await asyncio.wait_for(asyncio.get_running_loop().sock_sendall(ends.client, data), 10)


async def one_answer(ends: Ends) -> Any:
    """The next answer, for its one partition."""
    [answer] = await one_topic(ends)
    return answer


async def one_topic(ends: Ends, *, version: int = 9) -> Any:
    """The next answer, for the partitions of its one topic."""
    frame = await receive(ends, int.from_bytes(await receive(ends, 4), "big"))
    return messages.decode_response(ApiKey.PRODUCE, version, body=frame, start=5 if version >= 9 else 4).responses[0].partition_responses


async def receive(ends: Ends, size: int) -> bytes:
    data = b""
    while len(data) < size:
        data += await asyncio.wait_for(asyncio.get_running_loop().sock_recv(ends.client, size - len(data)), 10)
    return data
