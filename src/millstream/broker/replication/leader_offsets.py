"""Where the log of a leader begins and ends, asked by a follower that has lost its place in it."""

from collections.abc import Callable
from typing import Any, Final

from millstream.broker.cluster.peers import Peers
from millstream.client.codecs.request import MessageRequest
from millstream.client.errors import kafka_error
from millstream.cluster.follower import Follower
from millstream.errors import UnknownServerError
from millstream.offset import EARLIEST, LATEST
from millstream.wire.api import ApiKey

_FIRST_WITH_LEADER_EPOCH: Final = 4
_NEWEST: Final = 8


class LeaderOffsets:
    """ListOffsets as a replica sends it: the end is that of the log, not the high watermark."""

    def __init__(self, peers: Peers, *, node_id: int, timeout_s: Callable[[], float]) -> None:
        self._peers = peers
        self._node_id = node_id
        self._timeout_s = timeout_s

    async def range_of(self, follower: Follower) -> tuple[int, int]:
        """Start and end of the log of the follower's leader, in the follower's epoch; raises what the leader answers otherwise."""
        return await self._offset(follower, EARLIEST), await self._offset(follower, LATEST)

    async def _offset(self, follower: Follower, timestamp: int) -> int:
        topic, index = follower.log.topic_partition
        partition = {"partition_index": index, "current_leader_epoch": follower.leader_epoch, "timestamp": timestamp}
        fields = {"replica_id": self._node_id, "isolation_level": 0, "topics": [{"name": topic, "partitions": [partition]}]}
        request: MessageRequest[Any] = MessageRequest(ApiKey.LIST_OFFSETS, fields, lowest=_FIRST_WITH_LEADER_EPOCH, highest=_NEWEST)
        answer = await self._peers.ask(follower.leader, request, timeout_s=self._timeout_s())
        for answered in answer.topics:
            for found in answered.partitions:
                if found.error_code:
                    raise kafka_error(found.error_code)
                return int(found.offset)
        raise UnknownServerError(f"broker {follower.leader} did not answer for {follower.log.topic_partition}")
