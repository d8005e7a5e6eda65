"""`millstream pipeline load` and `maintain` as people run them."""

import json
import subprocess
import sys
from pathlib import Path

import pytest
from deltalake import DeltaTable

from tests.brokers import Broker
from tests.pipeline.events import write
from tests.topics import create_topic, fresh_name

pytestmark = pytest.mark.slow


def run(*arguments: str) -> "subprocess.CompletedProcess[str]":
    command = [sys.executable, "-m", "millstream.cli.main", "pipeline", *arguments]
    return subprocess.run(command, capture_output=True, text=True, timeout=400, check=False)


def test_a_lake_is_loaded_looked_at_and_maintained(broker: Broker, tmp_path: Path) -> None:
    topics = [create_topic(broker), create_topic(broker)]
    for topic in topics:
        write(broker, topic, [b"one", b"two"])
    lake, checkpoint = str(tmp_path / "lake"), str(tmp_path / "checkpoint")
    name = fresh_name("load")  # the group of the lag has this name, and other tests load as well
    file = tmp_path / "load.toml"
    document = {"brokers": broker.bootstrap_servers, "topics": topics, "to": lake, "checkpoint": checkpoint, "value-format": "string"}
    file.write_text("".join(f"{key} = {json.dumps(value)}\n" for key, value in document.items()))
    done = run("load", str(file), "--once", "--name", name)
    assert done.returncode == 0, done.stderr[-3000:]
    # Nothing of Spark's start, its warnings and its ways is on the terminal.
    first, batch, last = done.stderr.splitlines()
    assert first == f"{name}: running until what is there is processed"
    assert batch.startswith("batch 0: 4 rows in ")
    assert last == f"{name}: done after 1 batches, 4 rows"
    assert "jdk.incubator.vector" in Path(checkpoint, "millstream-spark.log").read_text()
    assert sorted(DeltaTable(f"{lake}/{topics[1]}").to_pyarrow_table()["value"].to_pylist()) == ["one", "two"]
    shown = run("status", "--checkpoint", checkpoint, "--output", "json")
    status = json.loads(shown.stdout)
    assert (shown.returncode, status["state"], status["rows"], status["group_lag"]["lag"]) == (0, "done", 4, 0)
    kept = json.loads(run("maintain", "--to", lake, "--output", "json").stdout)
    assert sorted(one["table"] for one in kept) == sorted(f"{lake}/{topic}" for topic in topics)
