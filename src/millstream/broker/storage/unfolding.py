"""Decompressing batches in threads, a few at a time: each may unfold to much memory, and is then looked through for many turns of the loop.

Batches of ordinary size have places of their own, so that none waits for one with a million records. How many records a batch
has stands in its header, how many bytes they are turns out: what unfolds too far gives up its place and waits for that of the large ones.
"""

import asyncio
from collections.abc import AsyncIterator, Callable
from concurrent.futures import Executor
from contextlib import asynccontextmanager
from typing import Final

from millstream.buffer import Buffer
from millstream.wire.compression import UnfoldsTooFar, forget

ORDINARY_RECORDS: Final = 20_000
ORDINARY_BYTES: Final = 8 * 1024 * 1024
MAX_ORDINARY: Final = 2
MAX_LARGE: Final = 1
MAX_IN_WORK: Final = MAX_ORDINARY + MAX_LARGE
"""How many batches are looked through at the same time."""

Unfold = Callable[[int | None], Buffer | None]
"""Run in a thread: the records without compression, None if they are broken; `UnfoldsTooFar` if there are more bytes than the limit."""


class Unfolding:
    """The places of those who look through large batches."""

    def __init__(self, executor: Executor) -> None:
        self._executor = executor
        self._ordinary = asyncio.Semaphore(MAX_ORDINARY)
        self._large = asyncio.Semaphore(MAX_LARGE)

    @asynccontextmanager
    async def unfolded(self, record_count: int, unfold: Unfold) -> AsyncIterator[Buffer | None]:
        """What came of `unfold`, as soon as there is a place for it; at the end it is gone."""
        loop = asyncio.get_running_loop()
        if record_count <= ORDINARY_RECORDS:
            async with self._ordinary:
                try:
                    found = await loop.run_in_executor(self._executor, unfold, ORDINARY_BYTES)
                except UnfoldsTooFar:
                    pass
                else:
                    yield found
                    return
        async with self._large:
            found = await loop.run_in_executor(self._executor, unfold, None)
            try:
                yield found
            finally:
                if found is not None:
                    # To give back a hundred megabytes takes longer than anybody may wait.
                    self._executor.submit(forget, found)
