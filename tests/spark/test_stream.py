"""A stream reads everything once, in micro-batches that keep to their limits, whatever happens to its topics meanwhile.

Somebody else writes to the topics all the time, if need be to a partition of its own: what is asked twice is not the same twice.
"""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from uuid import uuid4

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from tests.brokers import Broker, StartBroker
from tests.spark.admin import add_partitions, committed, delete_records, member_of
from tests.spark.reading import numbers, run_available, stream, table
from tests.spark.topic_content import write_numbers
from tests.spark.traffic import Traffic
from tests.topics import create_topic, delete_topic, fresh_name
from tests.waiting import wait_until


@contextmanager
def running(data: DataFrame, *, trigger: str = "0 seconds", **options: str) -> Iterator[StreamingQuery]:
    """A query into a table in memory, which has the query's name; stopped at the end."""
    name = f"memory_{uuid4().hex[:8]}"
    query = data.writeStream.format("memory").queryName(name).options(**options).trigger(processingTime=trigger).start()
    try:
        yield query
    finally:
        query.stop()


def seen(spark: SparkSession, query: StreamingQuery) -> list[int]:
    assert query.name is not None
    return numbers(spark.table(query.name))


def wait_for(spark: SparkSession, query: StreamingQuery, expected: list[int]) -> None:
    def has_come() -> bool:
        if (error := query.exception()) is not None:
            raise AssertionError(str(error))
        return len(seen(spark, query)) >= len(expected)

    wait_until(has_come, f"{len(expected)} rows", deadline_s=240)
    assert seen(spark, query) == expected


def test_a_stream_reads_what_is_there_and_what_comes(spark: SparkSession, broker: Broker, topic: str) -> None:
    write_numbers(broker, topic, range(10))
    with Traffic(broker, topic), running(stream(spark, broker, topic)) as query:
        wait_for(spark, query, list(range(10)))
        write_numbers(broker, topic, range(10, 15))
        wait_for(spark, query, list(range(15)))
        source = query.recentProgress[-1].sources[0]
        assert json.loads(str(source.latestOffset))[topic]["0"] > 15


def test_a_stream_begins_at_the_end_unless_it_says_otherwise(spark: SparkSession, broker: Broker, topic: str) -> None:
    write_numbers(broker, topic, range(10))
    options = {"kafka.bootstrap.servers": broker.bootstrap_servers, "subscribe": topic}
    with Traffic(broker, topic), running(spark.readStream.format("millstream").options(**options).load()) as query:
        wait_until(lambda: query.recentProgress, "the first look", deadline_s=240)
        write_numbers(broker, topic, range(10, 12))
        wait_for(spark, query, [10, 11])


def test_limits_are_shared_out_in_proportion(spark: SparkSession, broker: Broker, tmp_path: Path, checkpoint: str) -> None:
    topic = create_topic(broker, partitions=2)
    write_numbers(broker, topic, range(80))
    write_numbers(broker, topic, range(100, 120), partition=1)
    query = run_available(stream(spark, broker, topic, maxOffsetsPerTrigger=50), tmp_path / "table", checkpoint)
    progress = [event for event in query.recentProgress if event.numInputRows]
    assert [event.numInputRows for event in progress] == [50, 50]
    assert json.loads(str(progress[0].sources[0].endOffset))[topic] == {"0": 40, "1": 10}
    assert table(spark, tmp_path / "table") == [*range(80), *range(100, 120)]
    with Traffic(broker, topic, per_second=10):
        write_numbers(broker, topic, range(200, 280), partition=1)
        query = run_available(stream(spark, broker, topic, maxOffsetsPerTrigger=50), tmp_path / "table", checkpoint)
    # A partition with little waiting gets one more than its share.
    assert max(event.numInputRows for event in query.recentProgress) <= 51
    assert table(spark, tmp_path / "table") == [*range(80), *range(100, 120), *range(200, 280)]


def test_too_little_waits_until_there_is_enough_or_the_time_is_over(spark: SparkSession, broker: Broker, topic: str) -> None:
    with (
        running(stream(spark, broker, topic, minOffsetsPerTrigger=20)) as patient,
        running(stream(spark, broker, topic, minOffsetsPerTrigger=20, maxTriggerDelay="1s")) as hasty,
    ):
        write_numbers(broker, topic, range(5))
        wait_for(spark, hasty, list(range(5)))
        assert seen(spark, patient) == []
        write_numbers(broker, topic, range(5, 25))
        wait_for(spark, patient, list(range(25)))


def test_a_run_of_what_is_available_ends_and_the_next_one_goes_on(
    spark: SparkSession, broker: Broker, tmp_path: Path, checkpoint: str
) -> None:
    topic, busy = create_topic(broker), create_topic(broker)
    output, group = tmp_path / "table", fresh_name("group")

    def run() -> None:
        run_available(stream(spark, broker, f"{topic},{busy}", maxOffsetsPerTrigger=20, group__id=group), output, checkpoint)

    # Slow beside the limit: a run must not take long because the one before it did.
    with Traffic(broker, busy, per_second=3):
        write_numbers(broker, topic, range(20))
        run()
        assert table(spark, output) == list(range(20))
        assert committed(broker, group, topic) == {0: 20}
        run()
        add_partitions(broker, topic, 3)
        write_numbers(broker, topic, range(20, 30))
        write_numbers(broker, topic, range(100, 110), partition=1)
        run()
        assert table(spark, output) == [*range(30), *range(100, 110)]
        assert committed(broker, group, topic) == {0: 30, 1: 10, 2: 0}
        write_numbers(broker, topic, range(200, 203), partition=2)
        run()
    assert table(spark, output) == [*range(30), *range(100, 110), *range(200, 203)]
    assert committed(broker, group, topic) == {0: 30, 1: 10, 2: 3}
    assert committed(broker, group, busy)[0] > 0


def test_one_micro_batch_takes_everything_with_the_trigger_once(
    spark: SparkSession, broker: Broker, topic: str, tmp_path: Path, checkpoint: str
) -> None:
    write_numbers(broker, topic, range(20))
    writer = stream(spark, broker, topic, maxOffsetsPerTrigger=7).selectExpr("CAST(value AS STRING) AS value", "partition", "offset")
    rows = writer.writeStream.format("json").option("checkpointLocation", checkpoint).trigger(once=True)
    with Traffic(broker, topic):
        query = rows.start(str(tmp_path / "table"))
        assert query.awaitTermination(300)
    (count,) = [event.numInputRows for event in query.recentProgress if event.numInputRows]
    assert count > 20
    assert table(spark, tmp_path / "table") == list(range(20))


def test_partitions_and_topics_that_appear_under_way_are_read_from_their_beginning(spark: SparkSession, broker: Broker) -> None:
    stem = fresh_name()
    create_topic(broker, name=f"{stem}-a")
    write_numbers(broker, f"{stem}-a", range(5))
    data = stream(spark, broker, subscribePattern=f"{stem}-.*", startingOffsets="earliest")
    with Traffic(broker, f"{stem}-a"), running(data) as query:
        wait_for(spark, query, list(range(5)))
        add_partitions(broker, f"{stem}-a", 2)
        write_numbers(broker, f"{stem}-a", range(10, 15), partition=1)
        wait_for(spark, query, [*range(5), *range(10, 15)])
        create_topic(broker, name=f"{stem}-b")
        write_numbers(broker, f"{stem}-b", range(20, 25))
        wait_for(spark, query, [*range(5), *range(10, 15), *range(20, 25)])


def test_progress_is_committed_while_the_stream_runs(spark: SparkSession, broker: Broker, topic: str) -> None:
    group = fresh_name("group")
    with Traffic(broker, topic), running(stream(spark, broker, topic, group__id=group)) as query:
        write_numbers(broker, topic, range(12))
        wait_for(spark, query, list(range(12)))
        wait_until(lambda: committed(broker, group, topic).get(0, 0) >= 12, "the commit", deadline_s=240)


def test_a_group_with_members_does_not_end_a_query_that_only_tells_its_progress(spark: SparkSession, broker: Broker, topic: str) -> None:
    write_numbers(broker, topic, range(3))
    group = fresh_name("group")
    consumer = member_of(broker, group, topic)
    try:
        with Traffic(broker, topic), running(stream(spark, broker, topic, group__id=group)) as query:
            wait_for(spark, query, list(range(3)))
            write_numbers(broker, topic, range(3, 6))
            wait_for(spark, query, list(range(6)))
    finally:
        consumer.close()


def test_a_topic_that_was_deleted_between_two_runs_does_not_end_a_query_that_tells_its_progress(
    spark: SparkSession, broker: Broker, tmp_path: Path, checkpoint: str
) -> None:
    kept, deleted, group = create_topic(broker), create_topic(broker), fresh_name("group")
    write_numbers(broker, kept, range(5))
    write_numbers(broker, deleted, range(100, 105))
    data = stream(spark, broker, f"{kept},{deleted}", failOnDataLoss=False, group__id=group)
    run_available(data, tmp_path / "table", checkpoint)
    delete_topic(broker, deleted)
    with Traffic(broker, kept, per_second=20):
        write_numbers(broker, kept, [5])
        run_available(data, tmp_path / "table", checkpoint)
    assert table(spark, tmp_path / "table") == [*range(6), *range(100, 105)]
    assert committed(broker, group, kept)[0] >= 6


@pytest.mark.parametrize("fail", [True, False])
def test_records_that_are_gone_are_an_error_or_skipped(
    spark: SparkSession, broker: Broker, topic: str, tmp_path: Path, checkpoint: str, fail: bool
) -> None:
    add_partitions(broker, topic, 2)
    write_numbers(broker, topic, range(10))
    data = stream(spark, broker, topic, failOnDataLoss=fail)
    with Traffic(broker, topic, partition=1):
        run_available(data, tmp_path / "table", checkpoint)
        write_numbers(broker, topic, range(10, 30))
        delete_records(broker, topic, before=15)
        if fail:
            with pytest.raises(Exception, match=r"offset 10 of .* is gone: the partition now has the offsets from 15 up to 30"):
                run_available(data, tmp_path / "table", checkpoint)
            return
        run_available(data, tmp_path / "table", checkpoint)
    assert table(spark, tmp_path / "table") == [*range(10), *range(15, 30)]


@pytest.mark.parametrize("fail", [True, False])
def test_a_topic_that_is_deleted_is_an_error_or_read_anew(
    spark: SparkSession, broker: Broker, tmp_path: Path, checkpoint: str, fail: bool
) -> None:
    topic, busy = create_topic(broker), create_topic(broker)
    write_numbers(broker, topic, range(10))
    data = stream(spark, broker, f"{topic},{busy}", failOnDataLoss=fail)
    with Traffic(broker, busy):
        run_available(data, tmp_path / "table", checkpoint)
        delete_topic(broker, topic)
        if fail:
            with pytest.raises(Exception, match=f"{topic}-0 was deleted. Some data may have been missed; failOnDataLoss = false "):
                run_available(data, tmp_path / "table", checkpoint)
            return
        run_available(data, tmp_path / "table", checkpoint)
        create_topic(broker, name=topic)
        write_numbers(broker, topic, range(100, 105))
        run_available(data, tmp_path / "table", checkpoint)
    assert table(spark, tmp_path / "table") == [*range(10), *range(100, 105)]


def test_a_broker_that_restarts_is_waited_for(spark: SparkSession, start_broker: StartBroker) -> None:
    broker = start_broker()
    topic = create_topic(broker)
    write_numbers(broker, topic, range(5))
    with Traffic(broker, topic), running(stream(spark, broker, topic)) as query:
        wait_for(spark, query, list(range(5)))
        broker.kill()
        broker.start()
        write_numbers(broker, topic, range(5, 10))
        wait_for(spark, query, list(range(10)))


def test_nothing_new_is_seen_as_such(spark: SparkSession, broker: Broker, tmp_path: Path, checkpoint: str) -> None:
    """Offsets are compared as text: with more than ten partitions an order that is not kept would start empty micro-batches forever."""
    topic = create_topic(broker, partitions=12)
    write_numbers(broker, topic, range(10), partition=11)
    data = stream(spark, broker, topic)
    run_available(data, tmp_path / "table", checkpoint)
    run_available(data, tmp_path / "table", checkpoint)
    assert sorted(path.name for path in (Path(checkpoint) / "offsets").glob("[0-9]*")) == ["0"]
