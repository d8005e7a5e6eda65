"""As much of a broker as replication needs: logs, partitions, Fetch and ListOffsets over a real socket, and fetchers. The views are the
test's: it says who leads, and hands them out."""

import asyncio
from collections.abc import AsyncIterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from pathlib import Path
from uuid import UUID

from millstream.broker.cluster.live_settings import LiveSettings
from millstream.broker.cluster.peers import Peers
from millstream.broker.handlers.api_versions import ApiVersionsFamily
from millstream.broker.handlers.fetch.fetch import FetchFamily
from millstream.broker.handlers.fetch.fetch_sessions import FetchSessions
from millstream.broker.handlers.offsets import OffsetsFamily
from millstream.broker.network.api import Handler, api_of
from millstream.broker.network.listener import ConnectionLimits, Listener
from millstream.broker.network.region_loader import RegionLoader
from millstream.broker.network.request_times import RequestTimes
from millstream.broker.network.router import Router
from millstream.broker.replication.fetchers import Fetchers
from millstream.broker.replication.replication_quotas import ReplicationQuotas
from millstream.broker.storage.flusher import Flusher
from millstream.broker.tasks import Tasks
from millstream.clock import SystemClock
from millstream.cluster.partition import LocalBroker, Partition
from millstream.cluster.replicas import Replicas
from millstream.coordination.cluster_view import BrokerState, ClusterView, TopicState
from millstream.coordination.partition_state import PartitionState
from millstream.files import Files
from millstream.log.config import LogConfig
from millstream.log.directories.manager import LogManager
from tests.batches import encode_batch
from tests.unit.cluster.hosting import follow
from tests.waiting import eventually

OPTIONS = {"replica.fetch.wait.max.ms": "100", "replica.fetch.backoff.ms": "100"}
TOPIC = "orders"
TOPIC_ID = UUID(int=7)


class ReplicaBroker:
    """Broker `node_id`; `view` is what it was last told of the cluster."""

    def __init__(self, node_id: int, data: Path, *, files: Files | None = None, options: Mapping[str, str] | None = None) -> None:
        self.node_id = node_id
        self.epoch = 100 + node_id
        self.view = ClusterView()
        self._settings = LiveSettings({**OPTIONS, **(options or {})}, node_id=node_id)
        self._clock = SystemClock()
        self._threads = ThreadPoolExecutor(2)
        self.tasks = Tasks()
        self.logs = LogManager((data,), clock=self._clock, files=files)
        self.flusher = Flusher(self._threads, self._clock)
        self.peers = Peers(view=lambda: self.view, client_id=f"broker-{node_id}")
        self.quotas = ReplicationQuotas(self._clock)
        self.quotas.apply(self._settings.current)
        self.fetchers = Fetchers(
            self.peers,
            node_id=node_id,
            broker_epoch=lambda: self.epoch,
            settings=self._settings,
            quotas=self.quotas,
            spawn=self.tasks.spawn,
        )
        self.replicas = Replicas(
            self.logs,
            broker=LocalBroker(
                node_id,
                self._clock,
                request_flush=self.flusher.request,
                has_lease=lambda: True,
                lag_ms=lambda: 30_000,
                is_registered=lambda broker: broker in self.view.brokers,
                in_sync_change_wanted=lambda _partition: None,
                cannot_write=lambda _partition: None,
                on_follow=self.fetchers.follow,
            ),
            life=lambda: self.epoch,
            log_config=_log_config,
            remove_later=lambda _path, _delay_ms: None,
        )
        self.listener = Listener(
            Router(self._handlers(), spawn=self.tasks.spawn),
            limits=ConnectionLimits.of(self._settings.current),
            clock=self._clock,
            times=RequestTimes(),
        )
        self.address = self.listener.bind("127.0.0.1", 0)

    def _handlers(self) -> list[Handler]:
        self.sessions = FetchSessions(max_sessions=100)
        fetch = FetchFamily(
            self.replicas,
            sessions=self.sessions,
            loader=RegionLoader(self._threads),
            clock=self._clock,
            max_bytes=1 << 30,
            quotas=self.quotas,
        )
        offsets = OffsetsFamily(self.replicas, executor=self._threads)
        spoken = [api_of(each) for each in (FetchFamily.fetch, OffsetsFamily.list_offsets, ApiVersionsFamily.api_versions)]
        return [fetch.fetch, offsets.list_offsets, ApiVersionsFamily(lambda: spoken).api_versions]

    def configure(self, options: Mapping[str, str]) -> None:
        """Set options of this broker while it runs."""
        self._settings.apply(ClusterView(broker_configs={str(self.node_id): options}))
        self.fetchers.settings_changed()
        if self.quotas.apply(self._settings.current):
            self.fetchers.quotas_changed()

    def start(self) -> None:
        self.logs.start(node_id=self.node_id, cluster_id="tests")
        self.logs.load(lambda _topic: LogConfig(), topic_ids={TOPIC: TOPIC_ID})
        self.listener.start()

    async def stop(self, *, is_clean: bool = True) -> None:
        self.fetchers.close()
        self.peers.close()
        self.listener.close()
        await self.tasks.stop()
        if is_clean:
            self.logs.close(high_watermark_of=self.replicas.high_watermark_of)
        self._threads.shutdown()

    @property
    def registration(self) -> BrokerState:
        return BrokerState(self.node_id, *self.address, epoch=self.epoch)

    def partition(self, index: int = 0) -> Partition:
        return self.replicas.partition(TOPIC, index)

    def content(self, index: int = 0) -> bytes:
        """The batches of the partition, as they are on disk."""
        return b"".join(segment.path().read_bytes()[: segment.size_bytes] for segment in self.partition(index).log.segments)

    def append(self, *values: bytes, index: int = 0) -> int:
        """Append a batch as the leader; the new log end."""
        batch = encode_batch(list(values), timestamp=self._clock.now_ms())
        return self.partition(index).as_leader().append(batch, acks=1, now_ms=self._clock.now_ms()).last_offset + 1


def _log_config(topic: TopicState) -> LogConfig:
    return LogConfig.of({name: int(value) if value.isdigit() else value for name, value in topic.configs.items()})


class ReplicaCluster:
    """Several brokers, and a view of them that the test changes."""

    def __init__(self, *brokers: ReplicaBroker) -> None:
        self.brokers = {broker.node_id: broker for broker in brokers}
        lives = {broker.node_id: broker.epoch for broker in brokers}
        self.view = ClusterView(brokers={broker.node_id: broker.registration for broker in brokers}, lives=lives)

    async def lead(
        self, leader: int, *, epoch: int, partitions: int = 1, in_sync: Sequence[int] = (), only: Sequence[int] = (), **configs: str
    ) -> None:
        """The controller's decision, which all brokers hear of, or `only` some."""
        ids = tuple(sorted(self.brokers))
        state = PartitionState(ids, leader, epoch, tuple(in_sync) or ids, partition_epoch=epoch)
        topic = TopicState(TOPIC, TOPIC_ID, (state,) * partitions, {name.replace("_", "."): value for name, value in configs.items()})
        self.view = self.view.with_topics({TOPIC: topic})
        await self.announce(*only)

    async def announce(self, *only: int) -> None:
        for node_id in only or self.brokers:
            broker = self.brokers[node_id]
            broker.view = self.view
            await follow(broker.replicas, self.view)

    async def until_equal(self, index: int = 0) -> None:
        """Until all have the same records, and the leader knows it."""
        async with asyncio.timeout(20):
            await eventually(lambda: self._are_equal(index))

    def _are_equal(self, index: int) -> bool:
        partitions = [broker.partition(index) for broker in self.brokers.values()]
        ends = {partition.log.log_end_offset for partition in partitions}
        leaders = [partition for partition in partitions if partition.is_leader]
        return len(ends) == 1 and len(leaders) == 1 and leaders[0].high_watermark.value in ends


@asynccontextmanager
async def replica_cluster(
    path: Path, *, count: int = 2, files: Mapping[int, Files] | None = None, options: Mapping[str, str] | None = None
) -> AsyncIterator[ReplicaCluster]:
    """Brokers 1 to `count`; no topic yet."""
    brokers = [
        ReplicaBroker(number, path / str(number), files=(files or {}).get(number), options=options) for number in range(1, count + 1)
    ]
    for broker in brokers:
        broker.start()
    try:
        yield ReplicaCluster(*brokers)
    finally:
        for broker in brokers:
            await broker.stop()
