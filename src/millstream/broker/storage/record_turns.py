"""Looking into batches on the event loop, a little per turn, so that no other client waits for it.

Most batches that have to be looked into are small, and there is time for them at once: for so many records per turn of the loop, whoever
sent them. All others wait. What is large is decompressed (and compressed again) in a thread, which native code allows, and its records are
walked on the loop, some per turn; only a few such batches are in work at a time (`unfolding`).

It knows nothing of requests and order: who has to wait keeps the requests behind its own waiting (`Connection.hold`).
"""

import asyncio
from concurrent.futures import Executor
from contextlib import suppress
from typing import Final

from millstream.broker.storage.turn_budget import TurnBudget
from millstream.broker.storage.unfolding import Unfolding
from millstream.log.records.record_check import CheckedBatch, RecordCheck
from millstream.wire.compression import UnfoldsTooFar

RECORDS_PER_TURN: Final = 5_000
"""How many records are looked at in one turn of the loop without waiting."""
RECORDS_PER_SLICE: Final = 1_000
"""How many records of a batch in work are looked at per turn."""
SMALL_BYTES: Final = 512 * 1024
"""What is unfolded on the loop; more is, in a thread."""
SMALL_REBUILT_BYTES: Final = 64 * 1024
"""What is compressed on the loop: that takes much longer."""
REBUILT_BYTES_LIKE_A_RECORD: Final = 32
"""Compressing so many, by gzip, takes about as long as looking at a record."""
_TURNS_WAITED: Final = 100
_BYTES_LIKE_A_RECORD: Final = 512
"""Decompressing so many bytes takes about as long as looking at a record."""


class TakesLonger(Exception):
    """There is no time to look into the batch in this turn of the loop; it has to wait."""


class RecordTurns:
    """Shares the time of the loop among the batches that have to be looked into."""

    def __init__(self, executor: Executor) -> None:
        self._executor = executor
        self._unfolding = Unfolding(executor)
        self._budget = TurnBudget(RECORDS_PER_TURN)

    def check_now(self, check: RecordCheck) -> CheckedBatch:
        """The batch as it is to be stored; `TakesLonger` if there is no time for it in this turn. Raises what is wrong with it."""
        count = check.header.record_count
        if count > self._budget.units or not check.is_quick:
            raise TakesLonger
        try:
            check.unfold(limit=SMALL_REBUILT_BYTES if check.is_recompressed else SMALL_BYTES)
        except UnfoldsTooFar:
            self._budget.spend(SMALL_BYTES // _BYTES_LIKE_A_RECORD)
            raise TakesLonger from None
        bytes_like_a_record = REBUILT_BYTES_LIKE_A_RECORD if check.is_recompressed else _BYTES_LIKE_A_RECORD
        self._budget.spend(max(1, count + check.unfolded_bytes // bytes_like_a_record))
        if not check.walk(RECORDS_PER_TURN):
            raise TakesLonger  # Few records may have very many headers.
        return check.result()

    async def check(self, check: RecordCheck) -> CheckedBatch:
        """The batch as it is to be stored, as soon as there is time. Raises what is wrong with it."""
        await self._wait_for_a_turn(check.header.record_count)
        with suppress(TakesLonger):
            return self.check_now(check)
        loop = asyncio.get_running_loop()
        async with self._unfolding.unfolded(check.header.record_count, check.unfold):
            while not check.walk(RECORDS_PER_SLICE):  # noqa: ASYNC110 -- it waits for nothing: others have their turn
                await asyncio.sleep(0)
            return await loop.run_in_executor(self._executor, check.result) if check.is_recompressed else check.result()

    async def _wait_for_a_turn(self, count: int) -> None:
        """Wait until there is time for so many records, if that can ever be and does not take too long."""
        for _ in range(_TURNS_WAITED):
            await self._budget.wait(count)
            if count <= self._budget.units or count > RECORDS_PER_TURN:
                return
