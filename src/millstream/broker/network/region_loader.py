"""Makes a composed fetch answer ready to be sent: small regions become bytes, large ones stay for `sendfile`, cold ones are read first."""

import asyncio
from collections.abc import Callable
from concurrent.futures import Executor
from typing import Final

from millstream.broker.network.connection import PendingReply
from millstream.broker.network.outbox import Chunk
from millstream.broker.network.page_cache import PageCache, is_recent, warm_up
from millstream.log.region import FileRegion

SENDFILE_FROM: Final = 64 * 1024
"""Smaller regions are cheaper to read and send in one call with their header (measured: docs/performance.md)."""


_WITH_ONE_REGION: Final = 3
"""What most answers are: bytes, a region, and bytes, if the version has tags. Regions have bytes in between."""


class RegionLoader:
    """Decides per region how its bytes reach the socket."""

    def __init__(self, executor: Executor) -> None:
        self._page_cache = PageCache()
        self._executor = executor

    def is_recent(self, chunks: list[Chunk]) -> bool:
        """Whether what has to be sent with `sendfile` was just written."""
        return all(is_recent(chunk) for chunk in chunks if isinstance(chunk, FileRegion) and chunk.length >= SENDFILE_FROM)

    def load_warm(self, chunks: list[Chunk], *, start: int = 0, end: int | None = None) -> bool:
        """Make the answer, or these chunks of it, ready, in place, if nothing has to come from the disk; False if something has."""
        for number, chunk in enumerate(chunks[start:end], start):
            if not isinstance(chunk, FileRegion):
                continue
            if chunk.length >= SENDFILE_FROM:
                if not self._page_cache.is_warm(chunk):
                    return False
                continue
            if len(chunks) <= _WITH_ONE_REGION:
                return self._load_whole(chunks, chunk)
            content = self._page_cache.read(chunk)
            if content is None:
                return False
            chunks[number] = content
        return True

    def _load_whole(self, chunks: list[Chunk], region: FileRegion) -> bool:
        """Make one piece of an answer that has one region."""
        before, after = chunks[0], chunks[2] if len(chunks) == _WITH_ONE_REGION else b""
        assert isinstance(before, bytes)
        assert isinstance(after, bytes)
        content = self._page_cache.read(region, before=before, after=after)
        if content is not None:
            chunks[:] = [content]
        return content is not None

    def loading(self, chunks: list[Chunk], pending: PendingReply, *, at_once: int) -> Callable[[], bool]:
        """Make an answer of very many chunks ready and let it go, in steps (`loop_turns`)."""
        starts = iter(range(0, len(chunks), at_once))

        def load_some() -> bool:
            start = next(starts, None)
            if start is None:
                pending.complete(chunks)
            elif not self.load_warm(chunks, start=start, end=start + at_once):
                self.load_cold(chunks, pending)
            else:
                return False
            return True

        return load_some

    def load_cold(self, chunks: list[Chunk], pending: PendingReply) -> None:
        """Read the regions in a thread, then let the answer go; the loop serves others meanwhile."""
        loop = asyncio.get_running_loop()
        regions = [chunk for chunk in chunks if isinstance(chunk, FileRegion)]

        def loaded(future: asyncio.Future[None]) -> None:
            # A failed read fails again when the region is sent, and that closes the connection.
            future.exception()
            pending.complete(chunks)

        loop.run_in_executor(self._executor, _warm_up_all, regions).add_done_callback(loaded)


def _warm_up_all(regions: list[FileRegion]) -> None:
    for region in regions:
        warm_up(region)
