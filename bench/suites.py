"""Which cases there are: the one list to extend when a benchmark is added, in the order in which they run.

Isolated cases stand first or last, since shared brokers are down while they run.
"""

from collections.abc import Callable
from dataclasses import dataclass

from bench.audit import AuditCounting, AuditReport
from bench.case import Case
from bench.catch_up import CatchUp
from bench.client import ClientProducer, ClientStream
from bench.client_groups import ClientRebalance, ClientWrites
from bench.cluster import ClusterMemory, LatencyAmongMany, ReplicatedLatency, ReplicatedProduce
from bench.compaction import Compaction
from bench.connections import Connections
from bench.consume import Consume
from bench.failover import Failover
from bench.groups import Commits, OffsetsLoad, Rebalance
from bench.latency import Latency
from bench.leaders import ManyLeaders
from bench.log_sizes import LogSize
from bench.memory import Memory
from bench.metrics import Metrics
from bench.mirror import Mirroring
from bench.neighbours import Neighbours
from bench.partitions import Partitions
from bench.peers.cluster import SESSION_TIMEOUT_MS
from bench.peers.kafka import CLUSTER_HEAP
from bench.pipeline import PipelineLoad, PipelineShares
from bench.pipeline_delay import PipelineDelay
from bench.pipeline_growth import GrowingBacklog, GrowingPartitions, GrowingVersions
from bench.processes import ProcessesProduce, ProcessesStart
from bench.produce import Produce, Workload
from bench.reassign import Reassign
from bench.registry import AvroSerialisers, Registrations, RegistryLookups, RegistryStart
from bench.restart import Restart
from bench.spark_read import SparkAvro, SparkCount, SparkMemory, SparkStream
from bench.spark_write import SparkWrite, SparkWriteOnce, SparkWriteTyped
from bench.startup import Startup
from bench.tables import TablesRaw, TablesTyped
from bench.transactions import ReadCommitted, TransactionalIdsLoad, Transactions


@dataclass(frozen=True, slots=True)
class Sizes:
    """How much of everything. The quick sizes show that the machinery works; only the full ones are figures to quote."""

    messages_big_batches: int
    messages_small_batches: int
    messages_single: int
    latency_seconds: int
    scaling_messages: int
    partitions: tuple[int, ...]
    log_megabytes: tuple[int, ...]
    fetches: int
    connections: tuple[int, ...]
    idle_seconds: float
    group_members: tuple[int, ...] = (2, 10, 50)
    rebalances: int = 100
    commits: int = 20_000
    committed_offsets: int = 100_000
    dirty_megabytes: int = 300
    client_messages: int = 400_000
    client_rates: tuple[int, ...] = (100, 1_000, 10_000, 50_000)
    client_seconds: float = 6.0
    lookups: int = 40_000
    registrations: int = 2_000
    schemas: int = 10_000
    avro_messages: int = 100_000
    spark_rows: int = 4_000_000
    table_rows: int = 2_000_000
    neighbour_batches: int = 240_000
    neighbour_records: int = 1_000_000
    neighbour_topics: int = 500
    session_timeout_ms: int = SESSION_TIMEOUT_MS
    cluster_partitions: int = 1000
    missed_megabytes: int = 1000
    moved_megabytes: int = 10_000
    mirrored_megabytes: int = 2000
    audited_topics: int = 1000
    audited_buckets: int = 1000
    sampled_partitions: tuple[int, ...] = (1000, 5000)
    loaded_rows: int = 1_000_000
    loaded_partitions: tuple[int, ...] = (1, 16, 64)
    loaded_backlogs: tuple[int, ...] = (1_000_000, 4_000_000, 16_000_000)
    loaded_versions: tuple[int, ...] = (1, 10, 50)
    delay_seconds: float = 30.0
    transactions: int = 2_000
    transactional_messages: int = 500_000
    transactional_ids: int = 100_000


FULL = Sizes(2_000_000, 1_000_000, 50_000, 10, 500_000, (1, 100, 1000), (100, 2000), 1000, (1, 100, 1000), 5.0)
QUICK = Sizes(200_000, 100_000, 10_000, 3, 100_000, (1, 100), (10, 100), 200, (1, 100), 1.0,
              group_members=(2, 10), rebalances=20, commits=2_000, committed_offsets=10_000, dirty_megabytes=60,
              client_messages=200_000, client_rates=(100, 10_000), client_seconds=3.0,
              lookups=4_000, registrations=200, schemas=1_000, avro_messages=10_000, spark_rows=400_000, table_rows=400_000,
              neighbour_batches=20_000, neighbour_records=100_000, neighbour_topics=20,
              session_timeout_ms=3000, cluster_partitions=100, missed_megabytes=100, moved_megabytes=300, mirrored_megabytes=200,
              audited_topics=100, audited_buckets=100, sampled_partitions=(100,), loaded_rows=100_000,
              loaded_backlogs=(100_000, 400_000, 1_600_000), delay_seconds=6.0, transactions=200,
              transactional_messages=50_000, transactional_ids=10_000)  # fmt: skip


def single(sizes: Sizes) -> list[Case]:
    """The core table: one broker, one partition, one client."""
    counts = {10_000: sizes.messages_big_batches, 50: sizes.messages_small_batches, 1: sizes.messages_single}
    return [
        Startup(),
        *(Produce(Workload(count, batch)) for batch, count in counts.items()),
        *(Produce(Workload(count, batch, "all")) for batch, count in counts.items()),
        Consume(sizes.messages_big_batches),
        Latency(sizes.latency_seconds),
        Latency(sizes.latency_seconds, acks="all"),
        Memory(),
    ]


def cluster(sizes: Sizes) -> list[Case]:
    """Three brokers with three replicas of everything. What kills brokers comes last: a JVM that was started again is cold."""
    return [
        ReplicatedProduce(sizes.messages_big_batches, batch=10_000),
        # Fewer than on one broker: Kafka takes a second for a thousand single ones.
        ReplicatedProduce(sizes.messages_small_batches * 2 // 5, batch=50),
        ReplicatedProduce(sizes.messages_single * 2 // 5, batch=1),
        ReplicatedLatency(sizes.latency_seconds),
        ClusterMemory(heap=CLUSTER_HEAP),
        LatencyAmongMany(sizes.latency_seconds, partitions=sizes.cluster_partitions),
        Failover(session_timeout_ms=sizes.session_timeout_ms),
        ManyLeaders(sizes.cluster_partitions, session_timeout_ms=sizes.session_timeout_ms),
        CatchUp(sizes.missed_megabytes),
        Reassign(sizes.moved_megabytes),
        Reassign(sizes.moved_megabytes, throttle="100MB"),
    ]


def scaling(sizes: Sizes) -> list[Case]:
    """How cost grows. Partitions come after what should not feel them."""
    smallest = sizes.log_megabytes[0]
    return [
        *(Connections(number, count=sizes.scaling_messages, idle_seconds=sizes.idle_seconds) for number in sizes.connections),
        *(LogSize(size, read_count=sizes.scaling_messages, fetches=sizes.fetches) for size in sizes.log_megabytes),
        *(Partitions(number, count=sizes.scaling_messages) for number in sizes.partitions),
        *(Restart(size, partitions=10, max_rounds=3 if size == smallest else 1) for size in sizes.log_megabytes),
    ]


def groups(sizes: Sizes) -> list[Case]:
    """Consumer groups: rebalances, commits, offsets after a restart."""
    return [
        *(
            Rebalance(members, protocol=protocol, times=sizes.rebalances)
            for protocol in ("classic", "new")
            for members in sizes.group_members
        ),
        Commits(sizes.commits, partitions=1),
        Commits(sizes.commits // 10, partitions=100),
        OffsetsLoad(sizes.committed_offsets),
    ]


def neighbours(sizes: Sizes) -> list[Case]:
    """What a client feels of the worst requests of others."""
    return [Neighbours(small_batches=sizes.neighbour_batches, records=sizes.neighbour_records, topics=sizes.neighbour_topics)]


def compaction(sizes: Sizes) -> list[Case]:
    """The cleaner, and who feels it."""
    return [Compaction(sizes.dirty_megabytes)]


def client(sizes: Sizes) -> list[Case]:
    """The client of the paper: beside confluent-kafka alone, and its groups on a real ZooKeeper. Millstream only."""
    return [
        ClientProducer(sizes.client_messages, as_objects=False),
        ClientProducer(sizes.client_messages, as_objects=True),
        ClientStream(sizes.client_messages),
        ClientRebalance(members=10, partitions=100),
        ClientWrites(sizes.client_rates, seconds=sizes.client_seconds),
    ]


def registry(sizes: Sizes) -> list[Case]:
    """The schema registry and Avro."""
    return [
        RegistryLookups(sizes.lookups),
        Registrations(sizes.registrations),
        RegistryStart(sizes.schemas),
        AvroSerialisers(sizes.avro_messages),
    ]


def spark(sizes: Sizes) -> list[Case]:
    """Topics in Spark, beside Spark's own connector."""
    rows = sizes.spark_rows
    return [
        SparkCount(rows),
        SparkStream(rows),
        SparkAvro(rows),
        SparkMemory(rows),
        SparkWrite(rows),
        SparkWriteTyped(rows),
        SparkWriteOnce(rows),
    ]


def pipeline(sizes: Sizes) -> list[Case]:
    """Loads into a lake, beside Spark's own sink and connector. Millstream only."""
    return [
        PipelineLoad(sizes.spark_rows),
        PipelineShares(sizes.spark_rows // 4),
        *(PipelineDelay(partitions, warm_up_s=sizes.delay_seconds / 3, seconds=sizes.delay_seconds) for partitions in (4, 16)),
        GrowingPartitions(sizes.loaded_rows, sizes.loaded_partitions),
        GrowingBacklog(sizes.loaded_backlogs),
        GrowingVersions(sizes.loaded_rows, sizes.loaded_versions),
    ]


def tables(sizes: Sizes) -> list[Case]:
    """Topics as tables, without Spark. Millstream only, unless Kafka is asked for."""
    return [TablesRaw(sizes.table_rows), TablesTyped(sizes.table_rows)]


def transactions(sizes: Sizes) -> list[Case]:
    """Transactions of several sizes, reading past aborted ones, ids after a restart."""
    return [
        *(
            Transactions(sizes.transactions // (10 if messages == 1_000 else 1), messages=messages, partitions=partitions)
            for messages in (1, 10, 1_000)
            for partitions in (1, 10)
        ),
        ReadCommitted(sizes.transactional_messages),
        TransactionalIdsLoad(sizes.transactional_ids, max_rounds=1),
    ]


def mirror(sizes: Sizes) -> list[Case]:
    """A mirror between two brokers, beside MirrorMaker 2."""
    return [Mirroring(sizes.mirrored_megabytes, seconds=sizes.latency_seconds)]


def audit(sizes: Sizes) -> list[Case]:
    """Counting, and reports about it. Millstream only."""
    return [AuditCounting(), AuditReport(sizes.audited_topics, sizes.audited_buckets)]


def metrics(sizes: Sizes) -> list[Case]:
    """What publishing metrics costs. Millstream only."""
    return [Metrics(count, seconds=2 * sizes.latency_seconds) for count in sizes.sampled_partitions]


def processes(sizes: Sizes) -> list[Case]:
    """Several brokers of one machine, beside one. Millstream only."""
    return [ProcessesStart(4), ProcessesProduce(sizes.messages_small_batches, processes=2)]


SUITES: dict[str, Callable[[Sizes], list[Case]]] = {
    "single": single,
    "cluster": cluster,
    "scaling": scaling,
    "groups": groups,
    "neighbours": neighbours,
    "compaction": compaction,
    "client": client,
    "registry": registry,
    "spark": spark,
    "pipeline": pipeline,
    "tables": tables,
    "transactions": transactions,
    "mirror": mirror,
    "audit": audit,
    "metrics": metrics,
    "processes": processes,
}
