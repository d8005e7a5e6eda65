"""A stream into files has every record exactly once, wherever it was killed."""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from pyspark.sql import SparkSession
from pyspark.sql.functions import udf

from tests.brokers import Broker
from tests.spark.reading import run_available, stream, table
from tests.spark.topic_content import write_numbers
from tests.spark.traffic import Traffic
from tests.topics import create_topic
from tests.waiting import wait_until


def remove_all_of(folder: Path, batch: int) -> None:
    """Forget a micro-batch, as if the process had died before it wrote this."""
    for path in (folder / str(batch), folder / f".{batch}.crc"):
        path.unlink(missing_ok=True)


@pytest.mark.parametrize("stage", ["offsets written", "rows written", "rows committed", "micro-batch committed"])
def test_a_query_that_died_at_any_stage_of_a_micro_batch_goes_on(
    spark: SparkSession, broker: Broker, tmp_path: Path, checkpoint: str, stage: str
) -> None:
    """What is on the disk at each stage is made from what a whole run leaves: offsets, files of rows, the sink's list of files, commits."""
    topic = create_topic(broker, partitions=3)
    write_numbers(broker, topic, range(10))
    write_numbers(broker, topic, range(100, 110), partition=1)
    output = tmp_path / "table"
    data = stream(spark, broker, topic, maxOffsetsPerTrigger=8)
    with Traffic(broker, topic, partition=2, per_second=2):
        run_available(data, output, checkpoint)
    last = max(int(path.name) for path in (Path(checkpoint) / "offsets").glob("[0-9]*"))
    assert last >= 2
    if stage != "micro-batch committed":
        remove_all_of(Path(checkpoint) / "commits", last)
    if stage in {"offsets written", "rows written"}:
        remove_all_of(output / "_spark_metadata", last)
    if stage == "offsets written":
        # The files of the last micro-batch are those that the list of files no longer has.
        known = "".join(path.read_text() for path in (output / "_spark_metadata").glob("[0-9]*"))
        for path in output.glob("part-*"):
            if path.name not in known:
                path.unlink()
    # What the topic has meanwhile does not belong to the micro-batch that is run again.
    write_numbers(broker, topic, range(10, 13))
    with Traffic(broker, topic, partition=2, per_second=2):
        run_available(data, output, checkpoint)
    assert table(spark, output) == [*range(13), *range(100, 110)]


def test_a_worker_that_is_killed_in_the_middle_of_a_task_of_several_partitions_costs_nothing(
    spark: SparkSession, broker: Broker, tmp_path: Path, checkpoint: str
) -> None:
    topic = create_topic(broker, partitions=7)
    for partition in range(6):
        write_numbers(broker, topic, range(100 * partition, 100 * partition + 20), partition=partition)
    output, has_died = tmp_path / "table", tmp_path / "died"

    def die_once(value: bytes, partition: int) -> bytes:
        if partition == 3 and not has_died.exists():
            has_died.touch()
            os.kill(os.getpid(), signal.SIGKILL)
        return value

    data = stream(spark, broker, topic).withColumn("value", udf(die_once, "binary", useArrow=False)("value", "partition"))
    with Traffic(broker, topic, partition=6, per_second=2):
        with pytest.raises(Exception, match="Python worker exited unexpectedly"):
            run_available(data, output, checkpoint)
        run_available(data, output, checkpoint)
    assert table(spark, output) == [100 * partition + number for partition in range(6) for number in range(20)]
    # One task wrote the one file of the micro-batch, each partition in order.
    [written] = [path.read_text().splitlines() for path in output.glob("part-*") if '"value":"0"' in path.read_text()]
    places = [(row["partition"], row["offset"]) for row in map(json.loads, written)]
    assert places == sorted(places)


@pytest.mark.slow
def test_a_query_that_is_killed_again_and_again_writes_everything_once(spark: SparkSession, broker: Broker, tmp_path: Path) -> None:
    topic = create_topic(broker, partitions=2)
    write_numbers(broker, topic, range(100))
    write_numbers(broker, topic, range(1000, 1050), partition=1)
    output, checkpoint = tmp_path / "table", tmp_path / "checkpoint"
    command = [sys.executable, "-m", "tests.spark.endless_query", broker.bootstrap_servers, topic, str(output), str(checkpoint)]

    def batches() -> int:
        return len([path for path in (checkpoint / "offsets").glob("[0-9]*") if path.name.isdigit()])

    for goal in (2, 6):
        with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True) as process:
            try:
                wait_until(lambda goal=goal: batches() >= goal or process.poll() is not None, f"{goal} micro-batches", deadline_s=200)  # type: ignore[misc]
            finally:
                # Spark's JVM and its workers are the processes of this session.
                os.killpg(process.pid, signal.SIGKILL)
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stderr[-3000:]
    assert table(spark, output) == [*range(100), *range(1000, 1050)]
    assert batches() > 10
