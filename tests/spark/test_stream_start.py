"""A new stream begins at one place, on a topic that is written to meanwhile: however often Spark asks, and whatever happens to the first
micro-batch."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession

from tests.brokers import Broker
from tests.spark.reading import stream
from tests.spark.topic_content import write_numbers
from tests.spark.traffic import Traffic
from tests.topics import create_topic, delete_topic, fresh_name
from tests.waiting import wait_until

Batches = dict[int, list[int]]


class Interrupted(Exception):
    """What a function of the user's raises in a micro-batch."""


def default_stream(spark: SparkSession, broker: Broker, topic: str) -> DataFrame:
    """With no option but those that it needs."""
    options = {"kafka.bootstrap.servers": broker.bootstrap_servers, "subscribe": topic}
    return spark.readStream.format("millstream").options(**options).load()


def run(data: DataFrame, checkpoint: str, *, until: Callable[[Batches], object] = bool, fail: bool = False, **trigger: Any) -> Batches:
    """Run a query until it has seen enough, or to its end; the offsets of partition 0 that each micro-batch had, in order."""
    seen: Batches = {}

    def handle(batch: DataFrame, number: int) -> None:
        seen[number] = sorted(row[0] for row in batch.where("partition = 0").select("offset").collect())
        if fail:
            raise Interrupted

    query = data.writeStream.foreachBatch(handle).option("checkpointLocation", checkpoint).trigger(**trigger).start()
    try:
        if "processingTime" in trigger and not fail:
            wait_until(lambda: query.exception() or until(seen), "enough rows", deadline_s=240)
        else:
            wait_until(lambda: not query.isActive, "the end", deadline_s=240)
        error = query.exception()
    finally:
        query.stop()
    assert (error is not None) == fail, error
    assert error is None or "Interrupted" in str(error), error
    return seen


def all_offsets(*runs: Batches) -> list[int]:
    """What was seen, one after the other; where a micro-batch was run again, its last run counts."""
    latest = {number: offsets for batches in runs for number, offsets in batches.items()}
    return [offset for number in sorted(latest) for offset in latest[number]]


def beginning(checkpoint: str, topic: str) -> int:
    """Where the query began, by its checkpoint."""
    offset = json.loads((Path(checkpoint) / "offsets" / "0").read_text().splitlines()[-1])
    return int(offset[f"{topic} began at"]["0"])


def has_rows(at_least: int) -> Callable[[Batches], bool]:
    return lambda seen: len(all_offsets(dict(seen))) >= at_least


@pytest.mark.parametrize("per_second", [30, 300])
def test_a_default_stream_starts_on_a_topic_with_traffic(
    spark: SparkSession, broker: Broker, tmp_path: Path, topic: str, per_second: int
) -> None:
    with Traffic(broker, topic, per_second=per_second):
        for number in range(3):
            checkpoint = str(tmp_path / f"checkpoint{number}")
            offsets = all_offsets(run(default_stream(spark, broker, topic), checkpoint, until=has_rows(10), processingTime="0 seconds"))
            start = beginning(checkpoint, topic)
            assert offsets == list(range(start, start + len(offsets)))


@pytest.mark.parametrize("position", ["earliest", "latest"])
def test_a_query_that_fails_in_its_first_micro_batch_goes_on_from_where_it_began(
    spark: SparkSession, broker: Broker, topic: str, checkpoint: str, position: str
) -> None:
    write_numbers(broker, topic, range(20))
    data = stream(spark, broker, topic, startingOffsets=position)
    with Traffic(broker, topic):
        failed = [run(data, checkpoint, fail=True, processingTime="0 seconds") for _ in range(2)]
        assert failed[0].keys() == failed[1].keys() == {0}
        start = beginning(checkpoint, topic)
        assert start == 0 if position == "earliest" else start >= 20
        rest = run(data, checkpoint, until=has_rows(len(failed[0][0]) + 30), processingTime="0 seconds")
    assert failed[0][0] == failed[1][0] == rest[0]
    offsets = all_offsets(rest)
    assert offsets == list(range(start, start + len(offsets)))


def test_a_topic_that_is_deleted_after_the_first_micro_batch_failed_is_left_out(
    spark: SparkSession, broker: Broker, topic: str, checkpoint: str
) -> None:
    deleted = create_topic(broker)
    write_numbers(broker, topic, range(20))
    write_numbers(broker, deleted, range(20))
    options = {"failOnDataLoss": False, "group.id": fresh_name("group")}
    data = stream(spark, broker, f"{topic},{deleted}", **options).where(f"topic = '{topic}'")
    with Traffic(broker, topic):
        failed = run(data, checkpoint, fail=True, processingTime="0 seconds")
        delete_topic(broker, deleted)
        rest = run(data, checkpoint, until=has_rows(len(failed[0]) + 30), processingTime="0 seconds")
    assert failed[0] == rest[0]
    offsets = all_offsets(rest)
    assert offsets == list(range(len(offsets)))


def test_a_new_topic_that_is_deleted_before_its_micro_batch_was_run_again_is_left_out(
    spark: SparkSession, broker: Broker, checkpoint: str
) -> None:
    stem = fresh_name()
    kept, deleted = create_topic(broker, name=f"{stem}-a"), f"{stem}-b"
    write_numbers(broker, kept, range(5))
    data = stream(spark, broker, subscribePattern=f"{stem}-.*", failOnDataLoss=False)
    first = run(data, checkpoint, availableNow=True)
    create_topic(broker, name=deleted)
    write_numbers(broker, deleted, range(5))
    write_numbers(broker, kept, range(5, 10))
    assert len(run(data, checkpoint, fail=True, availableNow=True)[1]) == 10
    delete_topic(broker, deleted)
    assert all_offsets(first, run(data, checkpoint, availableNow=True)) == list(range(10))


def test_runs_of_the_trigger_once_follow_each_other_without_a_gap(spark: SparkSession, broker: Broker, topic: str, checkpoint: str) -> None:
    """Also with a least number of offsets: one run is all that there is to wait for."""
    options = {"startingOffsets": "latest", "minOffsetsPerTrigger": 1_000_000}
    with Traffic(broker, topic):
        runs = [run(stream(spark, broker, topic, **options), checkpoint, once=True) for _ in range(2)]
    write_numbers(broker, topic, range(20))
    runs.append(run(stream(spark, broker, topic, maxOffsetsPerTrigger=1_000_000, **options), checkpoint, once=True))
    assert [list(seen) for seen in runs] == [[0], [1], [2]]
    assert len(runs[-1][2]) >= 20
    start, offsets = beginning(checkpoint, topic), all_offsets(*runs)
    assert offsets == list(range(start, start + len(offsets)))


def test_a_run_of_what_is_available_ends_though_more_keeps_coming(spark: SparkSession, broker: Broker, topic: str, checkpoint: str) -> None:
    write_numbers(broker, topic, range(100))
    data = stream(spark, broker, topic, maxOffsetsPerTrigger=60)
    with Traffic(broker, topic, per_second=30):
        runs = [run(data, checkpoint, availableNow=True) for _ in range(2)]
    assert max(len(offsets) for seen in runs for offsets in seen.values()) <= 60
    offsets = all_offsets(*runs)
    assert offsets == list(range(len(offsets)))
    assert len(offsets) >= 100


def roll_back(checkpoint: str, *, offsets: int, commits: int) -> None:
    """Leave so many micro-batches in a checkpoint, as if an older copy of it had been put back."""
    for folder, kept in (("offsets", offsets), ("commits", commits)):
        for path in (Path(checkpoint) / folder).iterdir():
            number = path.name.removeprefix(".").removesuffix(".crc")
            if not number.isdecimal() or int(number) >= kept:
                path.unlink()


@pytest.mark.parametrize(("offsets", "commits"), [(1, 0), (2, 1)])
def test_a_checkpoint_that_is_rolled_back_gives_the_same_rows_from_there(
    spark: SparkSession, broker: Broker, topic: str, checkpoint: str, offsets: int, commits: int
) -> None:
    write_numbers(broker, topic, range(50))
    data = stream(spark, broker, topic, maxOffsetsPerTrigger=20)
    with Traffic(broker, topic, per_second=5):
        first = run(data, checkpoint, availableNow=True)
        roll_back(checkpoint, offsets=offsets, commits=commits)
        second = run(data, checkpoint, availableNow=True)
    assert min(second) == commits
    assert all(second[number] == first[number] for number in range(commits, offsets))
    seen = all_offsets(first, second)
    assert seen == list(range(len(seen)))
    assert len(seen) >= 50


def test_topics_that_appear_after_a_start_without_any_are_read_from_their_beginning(
    spark: SparkSession, broker: Broker, checkpoint: str
) -> None:
    stem = fresh_name()
    data = stream(spark, broker, subscribePattern=f"{stem}-.*", startingOffsets="latest")
    assert all_offsets(run(data, checkpoint, availableNow=True)) == []
    create_topic(broker, name=f"{stem}-a")
    write_numbers(broker, f"{stem}-a", range(5))
    assert all_offsets(run(data, checkpoint, availableNow=True)) == list(range(5))
