"""Partitions with real logs, for tests that need no broker."""

from pathlib import Path
from uuid import UUID

from millstream.cluster.partition import FlushRequest, Partition
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


def started_logs(*paths: Path, files: Files | None = None) -> LogManager:
    """A log manager with nothing in it."""
    logs = LogManager(paths, clock=ManualClock(NOW_MS), files=files)
    logs.start(node_id=1, cluster_id="tests")
    logs.load(lambda _topic: LogConfig(), topic_ids={})
    return logs


def host(
    logs: LogManager,
    *,
    topic: str = "orders",
    state: PartitionState = LED_BY_1,
    request_flush: FlushRequest | None = None,
    **options: object,
) -> Partition:
    """Partition 0 of a topic, on broker 1; options by Kafka's names with `_`."""
    config = LogConfig.of({name.replace("_", "."): value for name, value in options.items()})
    log = logs.create(topic, 0, topic_id=TOPIC_ID, config=config)
    return Partition(topic, 0, log, node_id=1, state=state, request_flush=request_flush or (lambda _partition: None))


def append(partition: Partition, *values: bytes, acks: int = -1) -> AppendResult:
    """Append one batch with these values."""
    batch = encode_batch(list(values), timestamp=NOW_MS)
    return partition.append_as_leader(batch, acks=acks, now_ms=NOW_MS)


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
    return ClusterView(topics={topic.name: topic for topic in topics})
