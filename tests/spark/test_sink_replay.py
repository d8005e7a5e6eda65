"""What a stream has written and what it has not: after checkpoints that were rolled back or copied, and replays of other rows."""

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
    produce_values(broker, topic, numbered(0, 30))
    copy(source(spark, broker, topic, maxOffsetsPerTrigger=10), broker, checkpoint, topic=target)
    assert values(broker, target) == list(range(30))
    roll_back(checkpoint, 1)
    produce_values(broker, topic, numbered(30, 40))
    rows = source(spark, broker, topic)
    copy(rows, broker, checkpoint, topic=target)
    assert values(broker, target) == sorted([*range(40), *range(10, 30)])
    # From here on this is the truth, and what is replayed of it is recognised.
    forget_commit(checkpoint, 1)
    produce_values(broker, topic, numbered(40, 50))
    copy(rows, broker, checkpoint, topic=target)
    assert values(broker, target) == sorted([*range(50), *range(10, 30)])


def test_copies_of_a_checkpoint_lose_nothing_wherever_they_write(spark: "SparkSession", broker: Broker, checkpoint: str) -> None:
    topic, target, other = create_topic(broker), create_topic(broker), create_topic(broker)
    rows = source(spark, broker, topic, maxOffsetsPerTrigger=10)
    produce_values(broker, topic, numbered(0, 10))
    copy(rows, broker, checkpoint, topic=target)
    for name in ("same", "other"):
        shutil.copytree(checkpoint, f"{checkpoint}-{name}")
    produce_values(broker, topic, numbered(10, 30))
    copy(rows, broker, checkpoint, topic=target)
    assert values(broker, target) == list(range(30))
    produce_values(broker, topic, numbered(30, 40))
    copy(source(spark, broker, topic), broker, f"{checkpoint}-same", topic=target)
    assert set(values(broker, target)) == set(range(40))
    copy(rows, broker, f"{checkpoint}-other", topic=other)
    assert values(broker, other) == list(range(10, 40))


def test_a_replay_is_recognised_whatever_the_order_and_the_tasks(spark: "SparkSession", broker: Broker, checkpoint: str) -> None:
    topic, target = create_topic(broker, partitions=3), create_topic(broker, partitions=2)
    rows = source(spark, broker, topic)
    for partition in range(3):
        produce_values(broker, topic, numbered(partition * 100, partition * 100 + 100), partition=partition)
    copy(rows, broker, checkpoint, topic=target)
    forget_commit(checkpoint, 0)
    copy(rows.coalesce(1), broker, checkpoint, topic=target)
    assert values(broker, target) == list(range(300))


def test_a_replay_with_other_rows_stops_with_a_sentence(spark: "SparkSession", broker: Broker, checkpoint: str) -> None:
    topic, target = create_topic(broker), create_topic(broker)
    rows = source(spark, broker, topic)
    produce_values(broker, topic, numbered(10, 30))
    copy(rows, broker, checkpoint, topic=target)
    forget_commit(checkpoint, 0)
    changed = rows.selectExpr("reverse(value) AS value")
    with pytest.raises(
        Exception, match=rf"the micro-batch 0 is on .*{target}.* already, and now it has as many rows as then, 20, but others"
    ):
        copy(changed, broker, checkpoint, topic=target)
    assert sum(ends(broker, target)) == 20
    copy(changed, broker, checkpoint, topic=target, skipReplayedBatches="false")
    assert sum(ends(broker, target)) == 40


def test_with_traffic_every_row_is_written_once_whatever_is_replayed(spark: "SparkSession", broker: Broker, checkpoint: str) -> None:
    topic, target = create_topic(broker), create_topic(broker, partitions=2)
    rows = source(spark, broker, topic)
    with counting(broker, topic) as written:
        for batch_id in range(2):
            copy(rows, broker, checkpoint, topic=target)
            forget_commit(checkpoint, batch_id)
    copy(rows, broker, checkpoint, topic=target)
    assert len(written) > 20
    assert values(broker, target) == written
