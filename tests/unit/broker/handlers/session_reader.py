"""A client with a fetch session, and what it reads from."""

from dataclasses import replace
from typing import Any

from millstream.broker.handlers.fetch.fetch import FetchFamily
from millstream.cluster.partition import Partition
from millstream.coordination.cluster_view import BrokerState, ClusterView
from millstream.coordination.partition_state import PartitionState
from millstream.wire.api import ApiKey
from tests.unit.broker.handlers.desk import Desk
from tests.unit.cluster.hosting import TOPIC_ID, topic_state, view_of

COUNT = 20
LONG_MS = 1_000_000
LAG_MS = 30_000
STATE = PartitionState(replicas=(1, 2), leader=1, leader_epoch=3, in_sync_replicas=(1, 2))
BROKERS = {number: BrokerState(number, f"host{number}", 9000 + number, "rack", epoch=10 * number) for number in (1, 2)}
CONSUMER, FOLLOWER = (-1, -1), (2, 20)


def view(*states: PartitionState, brokers: dict[int, BrokerState] = BROKERS) -> ClusterView:
    return replace(view_of(replace(topic_state(), partitions=states)), brokers=brokers)


class Reader:
    """A client with a fetch session over all partitions, at their end."""

    def __init__(self, family: FetchFamily, replica: tuple[int, int]) -> None:
        self.family = family
        self.replica = replica
        self.session_id = 0
        self.epoch = 0
        self.desk = Desk()

    async def ask(
        self, offsets: dict[int, int] | None = None, *, forgotten: tuple[int, ...] = (), leader_epoch: int = 3, **fields: Any
    ) -> Any:
        wanted = [
            {
                "partition": index,
                "fetch_offset": offset,
                "partition_max_bytes": 1 << 20,
                "current_leader_epoch": leader_epoch,
                "log_start_offset": 0,
            }
            for index, offset in (offsets or {}).items()
        ]
        topics = [{"topic_id": TOPIC_ID, "partitions": wanted}] if wanted else []
        gone = [{"topic_id": TOPIC_ID, "partitions": list(forgotten)}] if forgotten else []
        replica = {"replica_id": self.replica[0], "replica_epoch": self.replica[1]}
        session = {"session_id": self.session_id, "session_epoch": self.epoch}
        limits = {"max_wait_ms": 0, "min_bytes": 1, "max_bytes": 1 << 20}
        request = {"replica_state": replica, "topics": topics, "forgotten_topics_data": gone} | session | limits | fields
        self.epoch += 1
        answer = await self.desk.ask(self.family.fetch, ApiKey.FETCH, 17, **request)
        if answer is not None:
            self.session_id = answer.session_id
        return answer

    async def mentioned(self, *arguments: Any, **fields: Any) -> list[int]:
        return indexes(await self.ask(*arguments, **fields))


def indexes(answer: Any) -> list[int]:
    return [found.partition_index for topic in answer.responses for found in topic.partitions]


async def reader_at_the_end(family: FetchFamily, replica: tuple[int, int] = CONSUMER, *, leader_epoch: int = 3) -> Reader:
    reader = Reader(family, replica)
    assert len(await reader.mentioned(dict.fromkeys(range(COUNT), 0), leader_epoch=leader_epoch)) == COUNT
    return reader


class CountingFamily(FetchFamily):
    looks = 0

    def _looked_up(self, *arguments: Any) -> Partition:
        self.looks += 1
        return super()._looked_up(*arguments)


def watchers(partitions: list[Partition]) -> int:
    return sum(len(partition.watchers) for partition in partitions)


def commit(partition: Partition, end: int) -> None:
    partition.as_leader().replica_fetched(2, 20, end, 0)
