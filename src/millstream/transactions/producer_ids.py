"""Producer ids: numbers that no two producers share, handed out from blocks that a broker reserves in the tree.

    /producer_ids    {"next": <first id of the next block>, "above": <a number, if mirrors brought ids from elsewhere>}

A block is reserved by writing with the version that was read, so two brokers never get the same one; what is left of a block when a
broker stops is never used again. A mirror copies batches of producers that another cluster gave their ids: no id up to the highest of
them is handed out (`skip_to`). Every broker sees that before it hands out an id, because it looks at the znode each time; else a producer
whose id came from an old block would be taken for one of the other cluster's, and its records for repetitions. While the znode cannot be
read no id is handed out, not even from a block that was reserved before: producers wait, as they do for a coordinator that loads.
"""

import asyncio
import json

from millstream.coordination import paths
from millstream.coordination.complaints import Complaints
from millstream.coordination.interface import Coordination, ZnodeStat
from millstream.errors import CoordinatorLoadInProgress
from millstream.json_object import JsonObject
from millstream.zookeeper.errors import BadVersion, NodeExists, NoNode, ZooKeeperError

BLOCK_SIZE = 1000
HIGHEST_ID = 2**63 - 1
HIGHEST_MIRRORED = 2**62 - 2**62 % BLOCK_SIZE - 1
"""Ids above it were handed out by no cluster: a producer made them up. They are not skipped, else none would be left."""


class ProducerIds:
    """Hands out ids from this broker's current block."""

    def __init__(self, coordination: Coordination) -> None:
        self._coordination = coordination
        self._next = 0
        self._end = 0
        self.skipped = -1
        """The highest id up to which this broker has set ids aside for mirrored producers."""
        self._reserving = asyncio.Lock()
        self._complaints = Complaints()

    async def take(self) -> int:
        """An id that no other has or will have; CoordinatorLoadInProgress, as in Kafka, while none can be reserved: producers wait."""
        async with self._reserving:
            try:
                if self._next == self._end or self._next <= await self._mirrored():
                    self._next = await self._reserve()
                    self._end = self._next + BLOCK_SIZE
            except ZooKeeperError as error:
                raise CoordinatorLoadInProgress(f"no producer ids can be handed out for now: {error}") from error
            self._next += 1
            return self._next - 1

    async def skip_to(self, producer_id: int) -> None:
        """Hand out only ids above this one from now on, here and at every other broker; raises what `take` does if that cannot be done."""
        async with self._reserving:
            if self.skipped < producer_id <= HIGHEST_MIRRORED:
                last_of_block = producer_id - producer_id % BLOCK_SIZE + BLOCK_SIZE - 1
                try:
                    await self._reserve(size=0, above=last_of_block)
                except ZooKeeperError as error:
                    raise CoordinatorLoadInProgress(f"producer ids up to {producer_id} cannot be set aside for now: {error}") from error
                self.skipped = last_of_block

    async def _mirrored(self) -> int:
        """The highest id that a mirror brought; -1 if none did."""
        try:
            data, stat = await self._coordination.get(paths.PRODUCER_IDS)
        except NoNode:
            return -1
        self.skipped = max(self.skipped, self._decode(data, stat)[1])
        return self.skipped

    async def _reserve(self, *, size: int = BLOCK_SIZE, above: int = -1) -> int:
        """The first of so many ids of our own; they are above `above`, and all ids of later blocks will be."""
        while True:
            try:
                data, stat = await self._coordination.get(paths.PRODUCER_IDS)
                first, mirrored = self._decode(data, stat)
                mirrored = max(mirrored, above)
                first = max(first, mirrored + 1)
                await self._coordination.set(paths.PRODUCER_IDS, _encode(first + size, mirrored), version=stat.version)
            except NoNode:
                first = above + 1
                try:
                    await self._coordination.create(paths.PRODUCER_IDS, _encode(first + size, above))
                except NodeExists:
                    continue
            except BadVersion:
                continue
            return first

    def _decode(self, data: bytes, stat: ZnodeStat) -> tuple[int, int]:
        """The first id of the next block, and the highest mirrored one. If they make no sense no id is handed out: it might be taken."""
        try:
            content = JsonObject.parse(data)
            first = content.integer("next", highest=HIGHEST_ID - BLOCK_SIZE)
            mirrored = content.integer("above", highest=HIGHEST_MIRRORED) if "above" in content else -1
        except ValueError as error:
            self._complaints.report(paths.PRODUCER_IDS, stat.mzxid, error)
            raise CoordinatorLoadInProgress(f"the znode {paths.PRODUCER_IDS} makes no sense: {error}") from None
        self._complaints.forget(paths.PRODUCER_IDS)
        return first, mirrored


def _encode(next_block: int, mirrored: int) -> bytes:
    return json.dumps({"next": next_block} | ({"above": mirrored} if mirrored >= 0 else {})).encode()
