"""Producer ids: numbers that no two producers share, handed out from blocks that a broker reserves in the tree.

    /producer_ids    {"next": <first id of the next block>}

A block is reserved by writing with the version that was read, so two brokers never get the same one; what is left of a block when a
broker stops is never used again.
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


class ProducerIds:
    """Hands out ids from this broker's current block."""

    def __init__(self, coordination: Coordination) -> None:
        self._coordination = coordination
        self._next = 0
        self._end = 0
        self._reserving = asyncio.Lock()
        self._complaints = Complaints()

    async def take(self) -> int:
        """An id that no other has or will have; CoordinatorLoadInProgress, as in Kafka, while none can be reserved: producers wait."""
        async with self._reserving:
            if self._next == self._end:
                try:
                    self._next = await self._reserve()
                except ZooKeeperError as error:
                    raise CoordinatorLoadInProgress(f"no producer ids can be reserved for now: {error}") from error
                self._end = self._next + BLOCK_SIZE
            self._next += 1
            return self._next - 1

    async def _reserve(self) -> int:
        while True:
            try:
                data, stat = await self._coordination.get(paths.PRODUCER_IDS)
                first = self._decode(data, stat)
                await self._coordination.set(paths.PRODUCER_IDS, _encode(first + BLOCK_SIZE), version=stat.version)
            except NoNode:
                first = 0
                try:
                    await self._coordination.create(paths.PRODUCER_IDS, _encode(BLOCK_SIZE))
                except NodeExists:
                    continue
            except BadVersion:
                continue
            return first

    def _decode(self, data: bytes, stat: ZnodeStat) -> int:
        """The first id of the next block. Where that makes no sense no id is handed out: it might be in use already."""
        try:
            first = JsonObject.parse(data).integer("next", highest=HIGHEST_ID - BLOCK_SIZE)
        except ValueError as error:
            self._complaints.report(paths.PRODUCER_IDS, stat.mzxid, error)
            raise CoordinatorLoadInProgress(f"the znode {paths.PRODUCER_IDS} makes no sense: {error}") from None
        self._complaints.forget(paths.PRODUCER_IDS)
        return first


def _encode(next_block: int) -> bytes:
    return json.dumps({"next": next_block}).encode()
