"""DescribeQuorum (55): who decides about topics and options.

Versions 0-2. 1: times of the voters (KIP-836). 2: texts of errors, directories and addresses of the voters (KIP-853).
Here is no metadata log of Kafka's (KRaft): the coordination elects one of the living brokers as controller. So it is the leader here,
with the epoch of its election, and every living broker is a voter. What only a log has (offsets, times of fetches) is -1, "unknown".
"""

from collections.abc import Callable
from typing import TYPE_CHECKING

from millstream.broker.failures import error_fields
from millstream.broker.network.api import Fields, Later, Request, api
from millstream.broker.network.session import PLAINTEXT
from millstream.coordination import paths
from millstream.coordination.cluster_view import ClusterView, decode_controller_epoch
from millstream.coordination.interface import Coordination
from millstream.errors import UnknownTopicOrPartition
from millstream.wire.api import ApiKey
from millstream.zookeeper.errors import ZooKeeperError

if TYPE_CHECKING:
    from millstream.wire.requests.describe_quorum import DescribeQuorumRequest

METADATA_TOPIC = "__cluster_metadata"
UNKNOWN = -1


class QuorumFamily:
    """Describes the controller and the brokers that could be it."""

    def __init__(self, view: Callable[[], ClusterView], coordination: Coordination) -> None:
        self._view = view
        self._coordination = coordination

    @api(ApiKey.DESCRIBE_QUORUM, 0, 2)
    def describe_quorum(self, request: Request) -> Fields | Later:
        """The controller and the brokers that could be it."""
        message: DescribeQuorumRequest = request.decode()
        # Kafka has one answer for one partition; asked for more it does not know what to say either.
        asked = [(topic.topic_name, one.partition_index) for topic in message.topics for one in topic.partitions]
        if not asked:
            return {**_ok(), "topics": [], "nodes": []}
        if asked != [(METADATA_TOPIC, 0)]:
            return self._refuse(asked)
        return self._describe()

    def _refuse(self, asked: list[tuple[str, int]]) -> Fields:
        failure = error_fields(UnknownTopicOrPartition(f"only {METADATA_TOPIC}-0 has a quorum"))
        no_leader = {"leader_id": 0, "leader_epoch": 0, "high_watermark": 0, "current_voters": [], "observers": []}
        topics = [
            {"topic_name": topic, "partitions": [{"partition_index": index, **failure, **no_leader}]}
            for topic, index in dict.fromkeys(asked)
        ]
        return {**_ok(), "topics": topics, "nodes": []}

    async def _describe(self) -> Fields:
        try:
            data, _ = await self._coordination.get(paths.CONTROLLER_EPOCH)
            epoch = decode_controller_epoch(data)
        except (ZooKeeperError, ValueError):
            # The connection is away, or the znode was damaged; who the controller is is known all the same.
            epoch = UNKNOWN
        view = self._view()
        partition = {
            "partition_index": 0,
            **_ok(),
            "leader_id": view.controller_id,
            "leader_epoch": epoch,
            "high_watermark": UNKNOWN,
            "current_voters": [
                {"replica_id": node_id, "replica_directory_id": None, "log_end_offset": UNKNOWN} for node_id in view.brokers
            ],
            "observers": [],
        }
        nodes = [
            {"node_id": one.node_id, "listeners": [{"name": PLAINTEXT, "host": one.host, "port": one.port}]}
            for one in view.brokers.values()
        ]
        return {**_ok(), "topics": [{"topic_name": METADATA_TOPIC, "partitions": [partition]}], "nodes": nodes}


def _ok() -> dict[str, object]:
    return {"error_code": 0, "error_message": ""}
