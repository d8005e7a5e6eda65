"""What happens to a load: a worker killed, a full disk, another load into its table, a topic or a registry that goes."""

import os
import random
import signal
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from threading import Barrier
from typing import TYPE_CHECKING

import pytest
from pyspark.errors import StreamingQueryException
from pyspark.sql.datasource import InputPartition

from millstream.lake.load_batch import LoadBatch
from millstream.registry.client import RegistryClient
from millstream.spark.jobs.load.commit import LoadCommitter
from millstream.spark.jobs.load.files_as_rows import LoadReader, LoadSource
from millstream.spark.jobs.load.load import start_load
from millstream.spark.jobs.load.settings import LoadSettings
from millstream.spark.jobs.load.task_result import TaskResult
from millstream.spark.jobs.running.failure import sentence_of
from millstream.testing import Broker as InProcessBroker
from tests.brokers import Broker
from tests.crash.loop_disk import LoopDisk, loop_disk
from tests.pipeline.events import NOON_MS, write
from tests.pipeline.lake_reading import LOAD_S, load, places, rows, settings_for
from tests.spark.avro_messages import message, record, register
from tests.topics import create_topic, delete_topic
from tests.waiting import wait_until

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

__all__ = ["loop_disk"]

pytestmark = pytest.mark.slow


class KilledReader(LoadReader):
    """The first task that has written its files is killed."""

    def read(self, partition: InputPartition) -> "Iterator[pa.RecordBatch]":
        written = list(super().read(partition))
        mark = Path(self._settings.to, "killed")
        if not mark.exists():
            mark.touch()
            os.kill(os.getpid(), signal.SIGKILL)
        yield from written


class KilledSource(LoadSource):
    """The source with that reader."""

    reader_class = KilledReader

    @classmethod
    def name(cls) -> str:
        return "killed-load"


def failure_of(query: "StreamingQuery") -> str:
    """Why a query ends, as its user reads it."""
    with pytest.raises(StreamingQueryException) as failed:
        query.awaitTermination(LOAD_S)
    return sentence_of(str(failed.value))


def test_a_worker_that_is_killed_ends_the_load_and_the_next_run_has_every_row_once(
    spark: "SparkSession", broker: Broker, tmp_path: Path
) -> None:
    topic = create_topic(broker)
    write(broker, topic, [b"x"] * 50)
    settings = settings_for(broker, tmp_path, topic, value_format="string")
    assert "a worker process of Spark was killed" in failure_of(start_load(spark, settings, source=KilledSource))
    assert len(list(Path(settings.to).rglob("*.parquet"))) == 1
    query = start_load(spark, settings, source=KilledSource)
    assert query.awaitTermination(LOAD_S)
    assert places(settings) == [(0, number) for number in range(50)]


def test_a_full_disk_ends_the_load_and_the_next_run_goes_on(
    spark: "SparkSession", broker: Broker, tmp_path: Path, loop_disk: LoopDisk
) -> None:
    topic = create_topic(broker)
    noise = random.Random(7)
    write(broker, topic, [b"small"])
    settings = settings_for(broker, tmp_path, topic, to=str(loop_disk.path / "lake"))
    load(spark, settings)
    filler = loop_disk.fill(leave_bytes=500_000)
    # More than what is left, and what ext4 keeps for root.
    write(broker, topic, [noise.randbytes(20_000) for _ in range(300)], times_ms=[NOON_MS] * 300)
    failed = failure_of(start_load(spark, settings))
    assert failed.startswith(f"there is no room for the files of {settings.to}")
    assert places(settings) == [(0, 0)]
    assert len(list(Path(settings.to).rglob("*.parquet"))) == 1
    filler.unlink()
    load(spark, settings)
    assert places(settings) == [(0, number) for number in range(301)]


def test_of_two_loads_into_one_table_at_once_one_ends_with_a_sentence(spark: "SparkSession", broker: Broker, tmp_path: Path) -> None:
    topic = create_topic(broker)
    write(broker, topic, [b"x"] * 50)
    settings = settings_for(broker, tmp_path, topic, value_format="string")
    both = Barrier(2, timeout=LOAD_S)

    class MeetingCommitter(LoadCommitter):
        def commit(self, results: Sequence[TaskResult], batches: Mapping[str, LoadBatch]) -> None:
            both.wait()
            super().commit(results, batches)

    queries = [start_load(spark, replace(settings, checkpoint=f"{tmp_path}/{number}"), committer=MeetingCommitter) for number in range(2)]
    failures = []
    for query in queries:
        try:
            assert query.awaitTermination(LOAD_S)
        except StreamingQueryException as error:
            failures.append(sentence_of(str(error)))
    assert len(failures) == 1, failures
    failed = failures[0]
    assert "the table" in failed
    assert "another load" in failed.lower()
    assert places(settings) == [(0, number) for number in range(50)]


def wait_for_rows(query: "StreamingQuery", settings: LoadSettings, count: int) -> None:
    def has_rows() -> bool:
        assert query.exception() is None, query.exception()
        return Path(settings.to, settings.topics[0], "_delta_log").exists() and len(rows(settings)) == count

    wait_until(has_rows, f"{count} rows", deadline_s=LOAD_S)


@pytest.mark.parametrize("is_made_anew", [False, True])
def test_a_topic_that_goes_while_it_is_loaded_ends_the_load(
    spark: "SparkSession", broker: Broker, tmp_path: Path, *, is_made_anew: bool
) -> None:
    topic = create_topic(broker)
    write(broker, topic, [b"old"] * 3)
    settings = settings_for(broker, tmp_path, topic, value_format="string", once=False, every="3 seconds")
    query = start_load(spark, settings)
    wait_for_rows(query, settings, 3)
    delete_topic(broker, topic)
    if is_made_anew:
        create_topic(broker, name=topic)
        write(broker, topic, [b"new"] * 5)
    assert topic in failure_of(query)
    assert [row["value"] for row in rows(settings)] == ["old"] * 3


def test_a_registry_that_goes_while_a_load_runs_ends_it_and_the_next_run_goes_on(
    spark: "SparkSession", broker: Broker, registry: RegistryClient, registry_url: str, tmp_path: Path
) -> None:
    topic, schema = create_topic(broker), record(n="int")
    with InProcessBroker(registry=True) as holder, RegistryClient(holder.registry_url) as own:
        ids = register(own, f"{topic}-value", schema), register(registry, f"{topic}-value", schema)
        write(broker, topic, [message(ids[0], schema, {"n": 1})])
        settings = settings_for(broker, tmp_path, topic, value_format="avro", registry=holder.registry_url, once=False, every="100 ms")
        query = start_load(spark, settings)
        wait_for_rows(query, settings, 1)
    write(broker, topic, [message(ids[1], schema, {"n": 2})], times_ms=[NOON_MS])
    assert "No schema registry answers" in failure_of(query)
    load(spark, replace(settings, registry=registry_url, once=True))
    assert [row["n"] for row in rows(settings)] == [1, 2]
