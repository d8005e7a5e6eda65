"""What can be read off a broker: the one list that an endpoint or a console reads.

There are no callbacks for counting. Each part keeps plain integers of what it does (`Partition.bytes_out`, `RequestTimes`) or has a length,
and they are read when a sample is taken, some rows per turn of the loop: a metric costs nothing until then. A new one is an integer in its
owner and a line here.
"""

import asyncio
import os
from collections.abc import AsyncIterator, Callable, Mapping, Sized
from typing import Any, Final

from millstream.broker.cluster.membership import ClusterMembership
from millstream.broker.coordinators.group_coordinator import GroupCoordinator
from millstream.broker.handlers.fetch.fetch_sessions import FetchSessions
from millstream.broker.metrics.sample import BROKER, GROUPS, PARTITIONS, encode_part
from millstream.broker.network.listener import Listener
from millstream.broker.network.request_times import request_name
from millstream.broker.replication.replication_quotas import ReplicationQuotas
from millstream.broker.storage.loop_turns import in_turns
from millstream.broker.storage.storage import Storage
from millstream.cluster.partition import Partition
from millstream.coordination.cluster_view import TopicState
from millstream.coordination.partition_state import NO_LEADER

Row = tuple[Any, ...]
OFFSETS_PER_TURN: Final = 500
"""Committed offsets that are read before others have a turn: a fraction of a millisecond."""


class Sampler:
    """Reads the parts of one broker."""

    def __init__(
        self,
        storage: Storage,
        listener: Listener,
        groups: GroupCoordinator,
        cluster: ClusterMembership,
        fetch_sessions: FetchSessions,
        *,
        quotas: ReplicationQuotas,
        waiting_markers: Sized,
        node_id: int,
        has_lease: Callable[[], bool],
    ) -> None:
        """`waiting_markers`: the transactions whose markers cannot be delivered for now."""
        self._storage = storage
        self._listener = listener
        self._groups = groups
        self._cluster = cluster
        self._fetch_sessions = fetch_sessions
        self._quotas = quotas
        self._waiting_markers = waiting_markers
        self._node_id = node_id
        self._has_lease = has_lease

    async def parts(self) -> AsyncIterator[bytes]:
        """A sample, part by part (`sample`)."""
        async for groups in self._group_rows():
            yield encode_part(GROUPS, groups)
        async for some in in_turns(list(self._storage.replicas)):
            yield encode_part(PARTITIONS, [_row(partition) for partition in some])
        yield encode_part(BROKER, [await self._broker()])

    def values(self) -> Mapping[str, int]:
        """What is not about one partition, group or API, by the names of Kafka's metrics."""
        listener, logs = self._listener, self._storage.logs
        received = sum(connection.bytes_received for connection in listener.connections)
        return {
            "kafka.controller:type=KafkaController,name=ActiveControllerCount": int(self._cluster.active.is_active),
            "kafka.coordinator.transaction:type=TransactionMarkerChannelManager,name=UnknownDestinationQueueSize": len(
                self._waiting_markers
            ),
            "kafka.log:type=LogManager,name=OfflineLogDirectoryCount": len(logs.directories) - len(logs.online_directories),
            "kafka.server:type=FetchSessionCache,name=NumIncrementalFetchSessions": len(self._fetch_sessions),
            "kafka.server:type=FollowerReplication,name=byte-total": self._quotas.bytes_taken,
            "kafka.server:type=FollowerReplication,name=throttled-total": self._quotas.times_not_asked,
            "kafka.server:type=LeaderReplication,name=byte-total": self._quotas.bytes_sent,
            "kafka.server:type=LeaderReplication,name=throttled-total": self._quotas.times_not_sent,
            "kafka.server:type=socket-server-metrics,name=connection-count": len(listener.connections),
            "kafka.server:type=socket-server-metrics,name=incoming-byte-total": listener.bytes_of_closed + received,
        }

    async def _group_rows(self) -> AsyncIterator[list[Row]]:
        """As `GroupSample`, so many at a time as have some hundred offsets together."""
        for context in self._groups.runtime:
            rows: list[Row] = []
            offset_count = 0
            for group_id in context.shard.group_ids() if context.is_active else ():
                row = context.shard.progress(group_id) if context.is_active else None
                if row is not None:
                    rows.append(row)
                    offset_count += len(row[2])
                if offset_count > OFFSETS_PER_TURN or len(rows) > OFFSETS_PER_TURN:
                    yield rows
                    rows, offset_count = [], 0
                    await asyncio.sleep(0)
            yield rows

    async def _broker(self) -> Row:
        view, is_controller = self._cluster.view(), self._cluster.active.is_active
        topics: dict[str, int] = {}
        leaderless = 0
        if is_controller:
            async for some in in_turns(list(view.topics.values())):
                topics |= {topic.name: len(topic.partitions) for topic in some}
                leaderless += sum(map(_count_leaderless, some))
        requests = {request_name(key): list(times) for key, times in self._listener.times.by_key.items()}
        return (
            self._node_id,
            view.cluster_id,
            self._why_not_ready(),
            is_controller,
            len(view.brokers),
            topics,
            leaderless,
            dict(self.values()),
            requests,
            os.getpid(),
        )

    def _why_not_ready(self) -> str:
        if not self._storage.replicas.is_confirmed:
            return "the controller has not dealt with this broker yet: it leads nothing"
        if not self._has_lease():
            return "the coordination has not answered for most of a session: others may lead by now what this broker led"
        return ""


def _row(partition: Partition) -> Row:
    """As `PartitionSample`."""
    state, log = partition.state, partition.log
    leading, appended = partition.leading, partition.appended
    # The leader knows of its followers what the controller may not have written yet.
    in_sync = state.in_sync_replicas if leading is None else leading.replica_set.state.in_sync_replicas
    return (
        partition.topic,
        partition.index,
        state.leader,
        state.preferred_leader,
        len(state.replicas),
        len(in_sync),
        min(log.config.min_insync_replicas, len(state.replicas)),
        log.log_start_offset,
        partition.high_watermark.value,
        log.size_bytes,
        appended.messages,
        appended.size_bytes,
        partition.bytes_out,
        partition.produce_requests,
        partition.failed_produces,
        partition.fetch_requests,
        partition.failed_fetches,
        len(state.adding_replicas),
        state.is_reassigning,
    )


def _count_leaderless(topic: TopicState) -> int:
    return sum(partition.leader == NO_LEADER for partition in topic.partitions)
