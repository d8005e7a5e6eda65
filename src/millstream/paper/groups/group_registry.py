"""The ownership and the offset registry of one group, and how the two are written so that no message is lost.

    /consumers/<group>/owners/<topic>/<p>   ephemeral: the stream that owns the partition
    /consumers/<group>/offsets/<topic>/<p>  persistent: the next offset to read

**Taking** a partition is one multi: create its owner, and write its offset over the version that was read. **Storing** offsets is one
multi for all partitions of a consumer, each over the version that this owner wrote last. So whoever takes a partition changes the version
under the feet of the owner before, and that one's late writes fail: a consumer that was paused beyond its session cannot move an offset
that belongs to another. A check of the owner's znode would not do, for ZooKeeper can check a version, but not whose znode it is.

After a lost connection it is not known whether a write happened: it is looked up before the next one (`attempted`).
"""

import asyncio
from collections.abc import Callable, Iterable, Sequence
from typing import Final, NamedTuple

from millstream.coordination import paths
from millstream.coordination.interface import Coordination, Create, Operation, SetData, WatchCallback, ZnodeStat
from millstream.paper.groups.assignment import StreamId
from millstream.paper.progress import Claim
from millstream.zookeeper.errors import BadVersion, NodeExists, NoNode

MOST_DIGITS: Final = 19
"""Of an offset: 63 bits."""
_MOST_OPERATIONS: Final = 500
"""In one multi: well below ZooKeeper's limit of a megabyte per request."""


class StoredOffset(NamedTuple):
    """What the offset registry says of a partition: nothing, if no consumer of the group has ever owned it."""

    offset: int | None = None
    version: int | None = None


class Fenced(Exception):
    """Another consumer has written the offset since it was read: it has to be read again."""


class GroupRegistry:
    """Reads and writes the two registries of a group."""

    def __init__(self, coordination: Coordination, group: str, *, before_storing: Callable[[], None] | None = None) -> None:
        """`before_storing` is called in a thread before offsets are stored, of messages that were handled before the call."""
        self._coordination = coordination
        self._group = group
        self._before_storing = before_storing

    async def prepare(self, topics: Iterable[str]) -> None:
        """Make the persistent parents."""
        group = f"{paths.CONSUMERS}/{self._group}"
        parents = [paths.consumer_ids(self._group)]
        parents += [f"{group}/{kind}/{topic}" for topic in topics for kind in ("owners", "offsets")]
        for parent in parents:
            if await self._coordination.exists(parent) is None:
                try:
                    await self._coordination.create(parent, make_parents=True)
                except NodeExists:
                    continue

    async def stored(self, topic: str, partition: int) -> StoredOffset:
        """The offset of a partition."""
        try:
            data, stat = await self._coordination.get(self._offset_path(topic, partition))
        except NoNode:
            return StoredOffset()
        return StoredOffset(read_offset(data), stat.version)

    async def take(self, claim: Claim, owner: StreamId, *, offset: int) -> bool:
        """Become the owner, and write the offset. False while another is the owner; `Fenced` if the offset was changed meanwhile."""
        operations: list[Operation] = [Create(self._owner_path(claim), str(owner).encode(), ephemeral=True), self._write(claim, offset)]
        try:
            _, written = await self._coordination.multi(operations)
        except NodeExists as error:
            if error.operation_index != 0:
                raise Fenced from None
            if await self._is_owned_by_us(claim):
                # From a multi whose answer was lost.
                await self.release([claim])
                raise Fenced from None
            return False
        except BadVersion:
            raise Fenced from None
        claim.version = written.version if isinstance(written, ZnodeStat) else 0
        claim.stored, claim.attempted, claim.is_held = offset, None, True
        return True

    async def release(self, claims: Iterable[Claim]) -> None:
        """Own these partitions no longer."""

        async def release(claim: Claim) -> None:
            claim.is_held = False
            try:
                await self._coordination.delete(self._owner_path(claim))
            except NoNode:
                return

        await asyncio.gather(*(release(claim) for claim in claims))

    async def watch_owner(self, claim: Claim, watch: WatchCallback) -> bool:
        """Whether the partition has an owner, and a watch that fires when that ends."""
        return await self._coordination.exists(self._owner_path(claim), watch=watch) is not None

    async def store(self, claims: Sequence[Claim]) -> list[Claim]:
        """Write what has been handled of each claim; returns the claims that are fenced out, of which nothing was written."""
        fenced = [claim for claim in claims if claim.attempted is not None and not await self._find_out(claim)]
        left = [claim for claim in claims if claim not in fenced and claim.handled != claim.stored]
        while left:
            some, left = left[:_MOST_OPERATIONS], left[_MOST_OPERATIONS:]
            try:
                await self._store(some)
            except (BadVersion, NodeExists, NoNode) as error:
                fenced.append(some.pop(error.operation_index or 0))
                left = some + left
        return fenced

    async def _store(self, claims: Sequence[Claim]) -> None:
        for claim in claims:
            claim.attempted = claim.handled
        if self._before_storing is not None:
            await asyncio.to_thread(self._before_storing)
        operations = [self._write(claim, claim.attempted or 0) for claim in claims]
        try:
            results = await self._coordination.multi(operations)
        except (BadVersion, NodeExists, NoNode):
            # Certain to have changed nothing; after whatever else ends the wait, that is not known.
            for claim in claims:
                claim.attempted = None
            raise
        for claim, written in zip(claims, results, strict=True):
            claim.version = written.version if isinstance(written, ZnodeStat) else 0
            claim.stored, claim.attempted = claim.attempted, None

    async def _find_out(self, claim: Claim) -> bool:
        """Whether the claim is still good after a write of which it is not known whether it happened."""
        stored = await self.stored(claim.topic, claim.partition)
        following = 0 if claim.version is None else claim.version + 1
        if stored.version == following and stored.offset == claim.attempted:
            claim.version, claim.stored = stored.version, stored.offset
        claim.attempted = None
        return stored.version == claim.version

    async def _is_owned_by_us(self, claim: Claim) -> bool:
        stat = await self._coordination.exists(self._owner_path(claim))
        return stat is not None and stat.ephemeral_owner == self._coordination.session_id

    def _write(self, claim: Claim, offset: int) -> Operation:
        path, data = self._offset_path(claim.topic, claim.partition), str(offset).encode()
        return Create(path, data) if claim.version is None else SetData(path, data, claim.version)

    def _owner_path(self, claim: Claim) -> str:
        return paths.partition_owner(self._group, topic_name=claim.topic, partition=claim.partition)

    def _offset_path(self, topic: str, partition: int) -> str:
        return paths.committed_offset(self._group, topic_name=topic, partition=partition)


def read_offset(data: bytes) -> int | None:
    """The offset in a znode of the offset registry; None if it holds something else."""
    text = data.decode("ascii", "replace").strip()
    return int(text) if text.isascii() and text.isdigit() and len(text) <= MOST_DIGITS else None
