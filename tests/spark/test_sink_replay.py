"""What a stream has written is told from what it has not: after checkpoints that were rolled back or copied, and replays of other rows."""

import shutil
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.brokers import Broker
from tests.spark.read_back import ends
from tests.spark.test_sink_stream import copy, counting, forget_commit, numbered, source, values
from tests.topics import create_topic, produce_values

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]


def roll_back(checkpoint: str, batch_id: int) -> None:
    """Leave the checkpoint as it was before this micro-batch was planned."""
    for log in ("offsets", "commits"):
        for path in (Path(checkpoint) / log).iterdir():
            if int(path.name.strip(".").removesuffix(".crc")) >= batch_id:
                path.unlink()


def test_a_checkpoint_that_was_rolled_back_loses_nothing(spark: "SparkSession", broker: Broker, checkpoint: str) -> None:
    topic, target = create_topic(broker), create_topic(broker)
    rows = source(spark, broker, topic)
    for start in (0, 10, 20):
        produce_values(broker, topic, numbered(start, start + 10))
        copy(rows, broker, checkpoint, topic=target)
    roll_back(checkpoint, 1)
    produce_values(broker, topic, numbered(30, 40))
    copy(rows, broker, checkpoint, topic=target)
    assert values(broker, target) == sorted([*range(40), *range(10, 30)])
    # From here on this is the truth, and what is replayed of it is recognised.
    forget_commit(checkpoint, 1)
    produce_values(broker, topic, numbered(40, 50))
    copy(rows, broker, checkpoint, topic=target)
    assert values(broker, target) == sorted([*range(50), *range(10, 30)])


def test_a_copy_of_a_checkpoint_loses_nothing(spark: "SparkSession", broker: Broker, checkpoint: str) -> None:
    topic, target = create_topic(broker), create_topic(broker)
    rows = source(spark, broker, topic)
    produce_values(broker, topic, numbered(0, 10))
    copy(rows, broker, checkpoint, topic=target)
    shutil.copytree(checkpoint, f"{checkpoint}-copy")
    for start in (10, 20):
        produce_values(broker, topic, numbered(start, start + 10))
        copy(rows, broker, checkpoint, topic=target)
    produce_values(broker, topic, numbered(30, 40))
    copy(rows, broker, f"{checkpoint}-copy", topic=target)
    assert set(values(broker, target)) == set(range(40))


def test_a_copy_that_writes_to_another_topic_writes_all(spark: "SparkSession", broker: Broker, checkpoint: str) -> None:
    topic, target, other = create_topic(broker), create_topic(broker), create_topic(broker)
    rows = source(spark, broker, topic)
    produce_values(broker, topic, numbered(0, 10))
    copy(rows, broker, checkpoint, topic=target)
    shutil.copytree(checkpoint, f"{checkpoint}-copy")
    produce_values(broker, topic, numbered(10, 20))
    copy(rows, broker, checkpoint, topic=target)
    copy(rows, broker, f"{checkpoint}-copy", topic=other)
    assert values(broker, target) == list(range(20))
    assert values(broker, other) == list(range(10, 20))


def test_a_replay_is_recognised_whatever_the_order_and_the_tasks(spark: "SparkSession", broker: Broker, checkpoint: str) -> None:
    topic, target = create_topic(broker, partitions=3), create_topic(broker, partitions=2)
    rows = source(spark, broker, topic)
    for partition in range(3):
        produce_values(broker, topic, numbered(partition * 100, partition * 100 + 100), partition=partition)
    copy(rows, broker, checkpoint, topic=target)
    forget_commit(checkpoint, 0)
    copy(rows.coalesce(1), broker, checkpoint, topic=target)
    assert values(broker, target) == list(range(300))


@pytest.mark.parametrize(
    ("changed", "told"),
    [
        ("reverse(value) AS value", "has as many rows as then, 20, but others"),
        ("explode(array(value, value)) AS value", "has 40 rows where there were 20"),
    ],
)
def test_a_replay_with_other_rows_stops_with_a_sentence(
    spark: "SparkSession", broker: Broker, checkpoint: str, changed: str, told: str
) -> None:
    topic, target = create_topic(broker), create_topic(broker)
    rows = source(spark, broker, topic)
    produce_values(broker, topic, numbered(10, 30))
    copy(rows, broker, checkpoint, topic=target)
    forget_commit(checkpoint, 0)
    with pytest.raises(Exception, match=rf"the micro-batch 0 is on .*{target}.* already, and now it {told}"):
        copy(rows.selectExpr(changed), broker, checkpoint, topic=target)
    assert sum(ends(broker, target)) == 20
    copy(rows.selectExpr(changed), broker, checkpoint, topic=target, skipReplayedBatches="false")
    assert sum(ends(broker, target)) > 20


def test_with_traffic_every_row_is_written_once_whatever_is_replayed(spark: "SparkSession", broker: Broker, checkpoint: str) -> None:
    topic, target = create_topic(broker), create_topic(broker, partitions=2)
    rows = source(spark, broker, topic)
    with counting(broker, topic) as written:
        for batch_id in range(3):
            copy(rows, broker, checkpoint, topic=target)
            forget_commit(checkpoint, batch_id)
    copy(rows, broker, checkpoint, topic=target)
    assert len(written) > 30
    assert values(broker, target) == written
