"""Spark as a cluster: executors in other processes, Millstream shipped to them in a zip."""

import json
from collections import Counter
from pathlib import Path

import pytest
from deltalake import DeltaTable

from tests.brokers import Broker
from tests.spark.cluster_fixtures import ROOT
from tests.spark.read_back import ends, read_with_confluent
from tests.spark.standalone_cluster import submit
from tests.topics import create_topic, produce_values

ROWS = 20_000

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]


def run_job(master: str, broker: Broker, zipped: Path) -> dict[str, object]:
    """Write and read rows on a cluster, check them, and return who did the work."""
    topic = create_topic(broker, partitions=3)
    printed = submit(master, ROOT / "tests" / "spark" / "cluster_job.py", broker.bootstrap_servers, topic, str(ROWS), py_files=zipped)
    outcome: dict[str, object] = json.loads(
        next(line for line in printed.splitlines() if line.startswith("OUTCOME ")).removeprefix("OUTCOME ")
    )
    assert outcome["rows"] == outcome["keys"] == sum(ends(broker, topic)) == ROWS
    return outcome


def test_a_standalone_cluster_of_two_workers_writes_and_reads(master: str, broker: Broker, zipped: Path) -> None:
    outcome = run_job(master, broker, zipped)
    assert len(outcome["parents"]) == 2, "two executors"  # type: ignore[arg-type]
    assert all(".zip/millstream/" in file for file in outcome["files"])  # type: ignore[attr-defined]


def test_local_cluster_writes_and_reads(broker: Broker, zipped: Path, master: str) -> None:
    outcome = run_job("local-cluster[2,1,1024]", broker, zipped)
    assert len(outcome["parents"]) == 2, "two executors"  # type: ignore[arg-type]


def test_the_example_copies_a_topic_on_the_cluster(master: str, broker: Broker, zipped: Path, tmp_path: Path) -> None:
    source, target = create_topic(broker, partitions=2), create_topic(broker, partitions=2)
    produce_values(broker, source, [b"%d" % number for number in range(1000)])
    example = ROOT / "examples" / "spark_copy_topic.py"
    printed = submit(master, example, broker.bootstrap_servers, source, target, str(tmp_path / "checkpoint"), py_files=zipped)
    assert f"copied 1000 records from {source} to {target}" in printed
    assert {message.value for message in read_with_confluent(broker, target)} == {b"%d" % number for number in range(1000)}


def test_the_example_loads_a_topic_into_a_lake_on_the_cluster(master: str, broker: Broker, zipped: Path, tmp_path: Path) -> None:
    """Enough messages for a task on each worker; the tables are in a directory that both see."""
    topic = create_topic(broker, partitions=2)
    for partition in range(2):
        produce_values(broker, topic, [b"%d" % number for number in range(ROWS)], partition=partition)
    example = ROOT / "examples" / "pipeline" / "load.py"
    submit(master, example, broker.bootstrap_servers, topic, str(tmp_path / "lake"), str(tmp_path / "checkpoint"), py_files=zipped)
    table = DeltaTable(f"{tmp_path}/lake/{topic}")
    assert len(table.file_uris()) >= 2
    assert Counter(table.to_pyarrow_table()["value"].to_pylist()) == dict.fromkeys(map(str, range(ROWS)), 2)


@pytest.mark.timeout(1000)
def test_an_executor_that_is_killed_costs_a_load_nothing_but_time(master: str, broker: Broker, zipped: Path, tmp_path: Path) -> None:
    topic = create_topic(broker, partitions=2)
    for partition in range(2):
        produce_values(broker, topic, [b"%d" % number for number in range(ROWS)], partition=partition)
    places = [str(tmp_path / "lake"), str(tmp_path / "checkpoint")]
    job = ROOT / "tests" / "spark" / "killed_executor_load.py"
    submit(master, job, broker.bootstrap_servers, topic, *places, py_files=zipped, timeout_s=900)
    assert (tmp_path / "checkpoint" / "killed").exists()
    table = DeltaTable(f"{tmp_path}/lake/{topic}")
    found = table.to_pyarrow_table(columns=["kafka_partition", "kafka_offset"]).to_pylist()
    assert Counter((row["kafka_partition"], row["kafka_offset"]) for row in found) == Counter((p, n) for p in range(2) for n in range(ROWS))
    # The files of the killed task are in the directory and in no commit.
    assert len(list((tmp_path / "lake" / topic).rglob("*.parquet"))) > len(table.file_uris())
