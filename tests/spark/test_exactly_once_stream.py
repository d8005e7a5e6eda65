"""Exactly once with Spark around it: queries and batch writes that are killed or fail, and what a reader of committed data gets."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from millstream.client.admin.transaction_admin import TransactionAdmin
from millstream.client.cluster import Cluster
from tests.brokers import Broker, KafkaBroker
from tests.spark.cluster_fixtures import ROOT
from tests.spark.dying_commits import STEPS, DyingCommits
from tests.spark.read_back import ends, read_committed
from tests.spark.standalone_cluster import submit
from tests.spark.test_sink_stream import copy, counting, die_in_a_query, numbered, source
from tests.topics import create_topic, produce_values
from tests.waiting import wait_until

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]
ONCE = {"delivery.guarantee": "exactly-once"}


def await_committed(broker: Broker, topic: str, numbers: Sequence[int]) -> None:
    """Wait until readers see exactly these; markers follow the coordinator's answer a moment later."""
    wait_until(lambda: len(read_committed(broker, topic)) >= len(numbers), f"{len(numbers)} committed rows", deadline_s=60)
    assert sorted(int(message.value or b"") for message in read_committed(broker, topic)) == list(numbers)


def save(rows: "DataFrame", broker: Broker, topic: str) -> None:
    writer = rows.write.format("millstream").mode("append").option("kafka.bootstrap.servers", broker.bootstrap_servers)
    writer.option("topic", topic).options(**ONCE).save()


def test_a_query_whose_driver_dies_at_one_step_after_the_other_writes_every_row_once(
    spark: "SparkSession", peer: Broker, checkpoint: str
) -> None:
    """Always the same micro-batch: written and not decided, decided, committed in part, committed."""
    spark.dataSource.register(DyingCommits)
    topic, target = create_topic(peer, partitions=2), create_topic(peer, partitions=2)
    rows = source(spark, peer, topic)
    for partition in range(2):
        produce_values(peer, topic, numbered(partition * 50, partition * 50 + 50), partition=partition)
    # Kafka's commits are the same; fewer deaths, because each costs the start of a query.
    for step in STEPS[::2] if isinstance(peer, KafkaBroker) else STEPS:
        dying = rows.writeStream.format("dying-commits").option("kafka.bootstrap.servers", peer.bootstrap_servers).option("topic", target)
        query = dying.options(**ONCE).option("step", step).option("checkpointLocation", checkpoint).trigger(availableNow=True).start()
        with pytest.raises(Exception, match=r"(?i)python worker|crashed|EOF"):
            query.awaitTermination(200)
    produce_values(peer, topic, numbered(100, 150))
    copy(rows, peer, checkpoint, topic=target, **ONCE)
    await_committed(peer, target, range(150))
    # What was not decided is there as well, and aborted.
    assert sum(ends(peer, target)) >= 250


def test_spark_is_killed_between_two_transactions_and_goes_on_under_traffic(
    spark: "SparkSession", transactional_broker: Broker, checkpoint: str
) -> None:
    broker = transactional_broker
    topic, target = create_topic(broker, partitions=2), create_topic(broker)
    produce_values(broker, topic, numbered(0, 500))
    produce_values(broker, topic, numbered(500, 1000), partition=1)
    with counting(broker, topic, first=1000) as more:
        die_in_a_query(broker, topic, target, checkpoint, stage="between two EndTxns", guarantee="exactly-once")
        copy(source(spark, broker, topic), broker, checkpoint, topic=target, **ONCE)
    copy(source(spark, broker, topic), broker, checkpoint, topic=target, **ONCE)
    await_committed(broker, target, [*range(1000), *more])


def test_a_batch_write_is_there_whole_or_not_at_all(spark: "SparkSession", peer: Broker) -> None:
    topic = create_topic(peer, partitions=2)
    save(spark.range(0, 100, 1, 3).selectExpr("cast(id as string) as value"), peer, topic)
    await_committed(peer, topic, range(100))
    before = sum(ends(peer, topic))
    too_large = "if(id = 199, repeat('1', 2000000), cast(id as string)) as value"
    with pytest.raises(Exception, match=r"more than kafka.max.request.size"):
        save(spark.range(100, 200, 1, 3).selectExpr(too_large), peer, topic)
    assert sum(ends(peer, topic)) > before
    await_committed(peer, topic, range(100))
    with Cluster(peer.bootstrap_servers) as cluster:
        assert TransactionAdmin(cluster, timeout_s=30).open_ids() == set()


@pytest.mark.long
@pytest.mark.timeout(1000)
def test_an_executor_that_is_killed_when_its_task_has_written_repeats_nothing(
    master: str, transactional_broker: Broker, zipped: Path, tmp_path: Path
) -> None:
    topic = create_topic(transactional_broker, partitions=2)
    job = ROOT / "tests" / "spark" / "killed_executor_write.py"
    places = [transactional_broker.bootstrap_servers, topic, "1000", str(tmp_path / "killed")]
    submit(master, job, *places, py_files=zipped, timeout_s=900)
    assert (tmp_path / "killed").exists()
    await_committed(transactional_broker, topic, range(1000))
    assert sum(ends(transactional_broker, topic)) > 1200
