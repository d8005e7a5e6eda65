"""Large batches are looked through a few at a time, and ordinary ones do not wait for them."""

import asyncio
from collections.abc import Callable
from concurrent.futures import Executor, Future, ThreadPoolExecutor
from mmap import mmap
from typing import Any

from millstream.broker.storage.record_turns import RECORDS_PER_TURN, RecordTurns
from millstream.broker.storage.unfolding import ORDINARY_BYTES, ORDINARY_RECORDS, Unfolding
from millstream.buffer import Buffer
from millstream.log.config import LogConfig
from millstream.log.records.record_check import RecordCheck
from millstream.wire.batch import read_header
from millstream.wire.compression import Codec, UnfoldsTooFar, compress, decompress
from tests.batches import now_ms
from tests.unit.broker.handlers.produce.test_late_appends import COMPACTED, many
from tests.waiting import eventually

LARGE = ORDINARY_RECORDS + 1


class AtOnce(Executor):
    """Threads that are never late."""

    def submit(self, function: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        future: Future[Any] = Future()
        try:
            future.set_result(function(*args, **kwargs))
        except Exception as error:  # noqa: BLE001 -- as threads do it
            future.set_exception(error)
        return future


def check_of(batch: bytes, config: LogConfig = COMPACTED) -> RecordCheck:
    return RecordCheck(batch, read_header(batch), config=config, now_ms=now_ms())


async def test_a_batch_of_ordinary_size_does_not_wait_for_those_with_very_many_records() -> None:
    turns = RecordTurns(AtOnce())
    batch = many(3 * ORDINARY_RECORDS, codec=Codec.ZSTD)
    large = [asyncio.create_task(turns.check(check_of(batch))) for _ in range(3)]
    await asyncio.sleep(0)
    ordinary = many(RECORDS_PER_TURN + 1, codec=Codec.ZSTD)
    assert (await turns.check(check_of(ordinary))).batch == ordinary
    assert not any(task.done() for task in large)
    assert [checked.batch for checked in await asyncio.gather(*large)] == [batch] * 3


async def test_what_unfolds_too_far_waits_for_the_place_of_the_large_ones() -> None:
    asked: list[int | None] = []

    def unfold(limit: int | None) -> Buffer:
        asked.append(limit)
        if limit is not None:
            raise UnfoldsTooFar("much too far")
        return b"all of it"

    async def look() -> Buffer | None:
        async with unfolding.unfolded(1, unfold) as found:
            return found

    unfolding = Unfolding(AtOnce())
    async with unfolding.unfolded(LARGE, lambda _limit: b"large"):
        waiting = asyncio.create_task(look())
        await eventually(lambda: asked == [ORDINARY_BYTES])
        assert not waiting.done()
    assert await waiting == b"all of it"
    assert asked == [ORDINARY_BYTES, None]


async def test_the_memory_of_a_large_batch_is_given_back_by_a_thread() -> None:
    packed = compress(bytes(2 * ORDINARY_BYTES), Codec.ZSTD)
    with ThreadPoolExecutor(1) as executor:
        async with Unfolding(executor).unfolded(
            1, lambda limit: decompress(packed, Codec.ZSTD, limit=limit or 4 * ORDINARY_BYTES)
        ) as found:
            assert isinstance(found, memoryview)
            room = found.obj
            assert isinstance(room, mmap)
            assert found[-1] == 0
    assert room.closed
