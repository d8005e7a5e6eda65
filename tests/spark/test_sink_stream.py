"""Streams onto topics: at least once, and once when a micro-batch that is written is replayed."""

import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from millstream.batch_memory import batch_memory_of
from tests.brokers import Broker
from tests.connection import Connection
from tests.spark.read_back import ends, read_with_confluent
from tests.topics import create_topic, produce_values

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

ROOT = Path(__file__).parents[2]
OFFSET_FETCH = 9

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]


def source(spark: "SparkSession", broker: Broker, topic: str, **options: int) -> "DataFrame":
    reader = spark.readStream.format("millstream").option("kafka.bootstrap.servers", broker.bootstrap_servers).options(**options)
    return reader.option("subscribe", topic).option("startingOffsets", "earliest").load().select("key", "value")


def copy(rows: "DataFrame", broker: Broker, checkpoint: str, **options: str) -> "StreamingQuery":
    """Write what there is, in one or more micro-batches, and end."""
    writer = rows.writeStream.format("millstream").option("kafka.bootstrap.servers", broker.bootstrap_servers)
    query = writer.options(**options).option("checkpointLocation", checkpoint).trigger(availableNow=True).start()
    assert query.awaitTermination(200)
    return query


def numbered(start: int, stop: int) -> list[bytes | None]:
    return [b"%d" % number for number in range(start, stop)]


def values(broker: Broker, topic: str) -> list[int]:
    return sorted(int(message.value or b"") for message in read_with_confluent(broker, topic))


def forget_commit(checkpoint: str, batch_id: int) -> None:
    """Leave the checkpoint as a crash after the sink's commit leaves it."""
    (Path(checkpoint) / "commits" / str(batch_id)).unlink()
    (Path(checkpoint) / "commits" / f".{batch_id}.crc").unlink()


def committed_offsets(connection: Connection, group: str) -> dict[str, int]:
    wanted = {"group_id": group, "member_id": None, "member_epoch": -1, "topics": None}
    answer = connection.ask(OFFSET_FETCH, 8, {"groups": [wanted], "require_stable": False})
    return {topic.name: int(topic.partitions[0].committed_offset) for topic in answer.groups[0].topics}


@contextmanager
def counting(broker: Broker, topic: str, *, first: int = 0) -> Iterator[list[int]]:
    """A producer that counts in the background; the list is what it has written, in order."""
    written: list[int] = []
    is_over = threading.Event()

    def run() -> None:
        for start in count(first, 10):
            produce_values(broker, topic, numbered(start, start + 10))
            written.extend(range(start, start + 10))
            if is_over.wait(0.01):
                return

    thread = threading.Thread(target=run)
    thread.start()
    try:
        yield written
    finally:
        is_over.set()
        thread.join(30)


def test_what_comes_is_written_batch_by_batch(spark: "SparkSession", broker: Broker, checkpoint: str) -> None:
    topic, target = create_topic(broker, partitions=2), create_topic(broker, partitions=3)
    rows = source(spark, broker, topic)
    for start in (0, 100):
        produce_values(broker, topic, numbered(start, start + 50))
        produce_values(broker, topic, numbered(start + 50, start + 100), partition=1)
        query = copy(rows, broker, checkpoint, topic=target)
    assert values(broker, target) == list(range(200))
    with broker.connect() as connection:
        assert committed_offsets(connection, batch_memory_of(str(query.id), target)) == {target: 1}


def test_a_micro_batch_that_is_written_is_not_written_again(spark: "SparkSession", broker: Broker, checkpoint: str) -> None:
    topic, target = create_topic(broker), create_topic(broker)
    rows = source(spark, broker, topic)
    produce_values(broker, topic, numbered(0, 100))
    copy(rows, broker, checkpoint, topic=target)
    forget_commit(checkpoint, 0)
    produce_values(broker, topic, numbered(100, 150))
    copy(rows, broker, checkpoint, topic=target)
    assert values(broker, target) == list(range(150))


def test_the_memory_of_written_batches_can_be_switched_off(spark: "SparkSession", broker: Broker, checkpoint: str) -> None:
    topic, target = create_topic(broker), create_topic(broker)
    rows = source(spark, broker, topic)
    produce_values(broker, topic, numbered(0, 10))
    query = copy(rows, broker, checkpoint, topic=target, skipReplayedBatches="false")
    forget_commit(checkpoint, 0)
    copy(rows, broker, checkpoint, topic=target, skipReplayedBatches="false")
    assert values(broker, target) == sorted([*range(10), *range(10)])
    with broker.connect() as connection:
        assert committed_offsets(connection, batch_memory_of(str(query.id), target)) == {}


def test_a_replay_is_recognised_whatever_topics_its_rows_name(spark: "SparkSession", broker: Broker, checkpoint: str) -> None:
    topic, even, odd = create_topic(broker), create_topic(broker), create_topic(broker)
    rows = source(spark, broker, topic).selectExpr("value", f"if(cast(cast(value as string) as int) % 2 = 0, '{even}', '{odd}') as topic")
    produce_values(broker, topic, numbered(0, 20))
    query = copy(rows, broker, checkpoint)
    forget_commit(checkpoint, 0)
    produce_values(broker, topic, [b"20"])
    copy(rows, broker, checkpoint)
    assert values(broker, even) == list(range(0, 21, 2))
    assert values(broker, odd) == list(range(1, 20, 2))
    with broker.connect() as connection:
        assert committed_offsets(connection, batch_memory_of(str(query.id), None)) == {even: 1, odd: 0}


def die_in_a_query(broker: Broker, topic: str, target: str, checkpoint: str, *, stage: str, guarantee: str = "at-least-once") -> None:
    """Copy a topic in a Spark of its own, which is killed at this stage of its first micro-batch."""
    places = [broker.bootstrap_servers, topic, target, checkpoint]
    command = [sys.executable, "-m", "tests.spark.dying_query", *places, stage, guarantee]
    environment = os.environ | {"PYTHONPATH": os.pathsep.join([str(ROOT), str(ROOT / "src")])}
    died = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=250, check=False)
    assert died.returncode != 0, died.stdout + died.stderr
    assert sum(ends(broker, target)) >= 500, died.stderr
    assert not any((Path(checkpoint) / "commits").glob("0"))


@pytest.mark.parametrize(("stage", "is_exact"), [("rows", False), ("checkpoint", True)])
def test_spark_is_killed_at_a_stage_of_a_micro_batch_and_goes_on(
    spark: "SparkSession", broker: Broker, checkpoint: str, stage: str, is_exact: bool
) -> None:
    topic, target = create_topic(broker, partitions=2), create_topic(broker)
    produce_values(broker, topic, numbered(0, 500))
    produce_values(broker, topic, numbered(500, 1000), partition=1)
    with counting(broker, topic, first=1000) as more:
        die_in_a_query(broker, topic, target, checkpoint, stage=stage)
        copy(source(spark, broker, topic), broker, checkpoint, topic=target)
    copy(source(spark, broker, topic), broker, checkpoint, topic=target)
    found = values(broker, target)
    assert sorted(set(found)) == [*range(1000), *more]
    if is_exact:
        assert found == [*range(1000), *more]


def test_a_stream_that_cannot_write_says_why(spark: "SparkSession", broker: Broker, checkpoint: str) -> None:
    topic = create_topic(broker)
    produce_values(broker, topic, [b"x" * 2000])
    with pytest.raises(Exception, match=r"more than kafka.max.request.size = 1000: raise it"):
        copy(source(spark, broker, topic), broker, checkpoint, topic=create_topic(broker), **{"kafka.max.request.size": "1000"})
