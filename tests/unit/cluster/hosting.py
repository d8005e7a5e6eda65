"""Partitions with real logs, for tests that need no broker."""

from collections.abc import Callable, Iterable
from pathlib import Path
from uuid import UUID

from millstream.cluster.partition import LocalBroker, Partition
from millstream.cluster.replicas import Replicas
from millstream.coordination.cluster_view import ClusterView, TopicState
from millstream.coordination.partition_state import PartitionState
from millstream.files import Files
from millstream.log.config import LogConfig
from millstream.log.directories.manager import LogManager
from millstream.log.log import AppendResult
from tests.batches import encode_batch
from tests.manual_clock import ManualClock

NOW_MS = 1_700_000_000_000
TOPIC_ID = UUID(int=7)
LED_BY_1 = PartitionState(replicas=(1,), leader=1, leader_epoch=3, in_sync_replicas=(1,))


class RecordingWatcher:
    """A reader of a partition that notes how it is called."""

    def __init__(self) -> None:
        self.calls: list[str] = []

    def moved(self) -> None:
        self.calls.append("moved")

    def marked(self) -> None:
        self.calls.append("marked")


def started_logs(*paths: Path, files: Files | None = None) -> LogManager:
    """A log manager with nothing in it."""
    logs = LogManager(paths, clock=ManualClock(NOW_MS), files=files)
    logs.start(node_id=1, cluster_id="tests")
    logs.load(lambda _topic: LogConfig(), topic_ids={})
    return logs


def local_broker(
    *,
    clock: ManualClock | None = None,
    request_flush: Callable[[Partition], None] = lambda _partition: None,
    has_lease: Callable[[], bool] = lambda: True,
    in_sync_change_wanted: Callable[[Partition], None] = lambda _partition: None,
    cannot_write: Callable[[Partition], None] = lambda _partition: None,
    on_follow: Callable[[Iterable[Partition]], None] = lambda _partitions: None,
) -> LocalBroker:
    """Broker 1, which knows brokers 1 to 3."""
    return LocalBroker(
        1,
        clock or ManualClock(NOW_MS),
        request_flush=request_flush,
        has_lease=has_lease,
        lag_ms=lambda: 30_000,
        is_registered=lambda node_id: node_id in (1, 2, 3),
        in_sync_change_wanted=in_sync_change_wanted,
        cannot_write=cannot_write,
        on_follow=on_follow,
    )


def replicas_on(
    logs: LogManager,
    *,
    log_config: Callable[[TopicState], LogConfig],
    broker: LocalBroker | None = None,
    life: Callable[[], int] = lambda: 7,
    remove_later: Callable[[Path, int], None] = lambda _path, _delay_ms: None,
) -> Replicas:
    """The partitions of broker 1."""
    return Replicas(
        logs,
        broker=broker or local_broker(),
        life=life,
        log_config=log_config,
        remove_later=remove_later,
    )


async def follow(replicas: Replicas, view: ClusterView) -> None:
    """Take a view over, and open the logs that come with it."""
    await replicas.apply(view)
    await replicas.open_logs()


def host(
    logs: LogManager,
    *,
    topic: str = "orders",
    state: PartitionState = LED_BY_1,
    broker: LocalBroker | None = None,
    high_watermark: int = 0,
    **options: object,
) -> Partition:
    """Partition 0 of a topic, on broker 1; options by Kafka's names with `_`."""
    config = LogConfig.of({name.replace("_", "."): value for name, value in options.items()})
    log = logs.create(topic, 0, topic_id=TOPIC_ID, config=config)
    partition = Partition(topic, 0, log, broker=broker or local_broker(), state=state, high_watermark=high_watermark)
    partition.apply(state)
    return partition


def append(partition: Partition, *values: bytes, acks: int = -1) -> AppendResult:
    """Append one batch with these values."""
    batch = encode_batch(list(values), timestamp=NOW_MS)
    return partition.as_leader().append(batch, acks=acks, now_ms=NOW_MS)


def flush(partition: Partition) -> None:
    """What the flusher does, here and now."""
    running = partition.log.begin_flush()
    assert running is not None
    running.run()
    partition.log.complete_flush(running, now_ms=NOW_MS)
    partition.flushed()


def topic_state(name: str = "orders", *, partitions: int = 1, topic_id: UUID = TOPIC_ID, **configs: str) -> TopicState:
    """A topic whose partitions are all led by broker 1."""
    own = {key.replace("_", "."): value for key, value in configs.items()}
    return TopicState(name, topic_id, (LED_BY_1,) * partitions, own)


def view_of(*topics: TopicState) -> ClusterView:
    """A view with these topics."""
    return ClusterView(topics={topic.name: topic for topic in topics}, lives={1: 7})
