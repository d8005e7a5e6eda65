"""What is said before Spark is started: about job files, topics, checkpoints, replays; and pictures, which need no Spark."""

import json
from pathlib import Path

import pytest

from millstream.client.admin.topic_creation import find_or_create
from millstream.client.cluster import Cluster
from millstream.spark.jobs.description.checkpoint_job import check_checkpoint
from millstream.testing import Broker
from tests.unit.cli.conftest import Millstream

FILE = """
name = "views"
brokers = "{brokers}"
checkpoint = "{directory}/checkpoint"

[input]
topic = "{topic}"
schema = "page STRING, at TIMESTAMP"
time = "at"

[window]
size = "1 hour"
by = ["page"]

[measures]
views = "count"
top = "top(3, page)"

[output]
topic = "results"
"""


@pytest.fixture
def file(millstream_broker: Broker, tmp_path: Path) -> Path:
    with Cluster(millstream_broker.bootstrap_servers) as cluster:
        find_or_create(cluster, "page-views", partitions=1, configs={"retention.ms": "60000"})
    file = tmp_path / "views.toml"
    file.write_text(FILE.format(brokers=millstream_broker.bootstrap_servers, directory=tmp_path, topic="page-views"))
    return file


def test_a_misspelt_file_is_said_before_anything_is_started(millstream: Millstream, file: Path) -> None:
    file.write_text(file.read_text().replace("[window]", "[widnow]"))
    outcome = millstream("pipeline", "windows", str(file), "--once")
    assert outcome.code == 2
    assert f"{file}, line " in outcome.err
    assert "there is no section [widnow]. Did you mean 'window'?" in outcome.err


def test_a_windows_file_is_no_join(millstream: Millstream, file: Path) -> None:
    outcome = millstream("pipeline", "join", str(file))
    assert (outcome.code, "there is no section [input]" in outcome.err) == (2, True)


def test_a_topic_that_is_not_there_is_said(millstream: Millstream, file: Path) -> None:
    file.write_text(file.read_text().replace("page-views", "page-veiws"))
    outcome = millstream("pipeline", "windows", str(file))
    assert outcome.code == 2
    assert "[input] topic: there is no topic 'page-veiws'" in outcome.err


def test_a_changed_job_is_refused_and_short_retention_warned_of(millstream: Millstream, file: Path, tmp_path: Path) -> None:
    check_checkpoint(str(tmp_path / "checkpoint"), {"job": "windows", "window": {"size": "2 hours"}}, topic_ids={})
    outcome = millstream("pipeline", "windows", str(file))
    assert outcome.code == 2
    assert 'window.size was "2 hours" and is "1 hour"' in outcome.err
    assert "warning: page-views keeps messages for 1 minute, and a window with its watermark takes 70 minutes" in outcome.err


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        (["--to-topic", "results"], "results is where the live job writes"),
        ([], "a replay needs a place for its results"),
        (["--to-topic", "again", "--from", "yesterday"], "--from takes earliest"),
    ],
)
def test_a_replay_that_cannot_be_is_said(millstream: Millstream, file: Path, arguments: list[str], problem: str) -> None:
    outcome = millstream("pipeline", "replay", str(file), *arguments)
    assert (outcome.code, problem in outcome.err) == (2, True)


def test_a_picture_is_drawn_of_what_is_on_the_topic(millstream: Millstream, millstream_broker: Broker, file: Path, tmp_path: Path) -> None:
    from confluent_kafka import Producer

    producer = Producer({"bootstrap.servers": millstream_broker.bootstrap_servers})
    for hour, page in enumerate(["/home", "/home", "/cart"]):
        start, end = f"2026-01-31T0{hour}:00:00Z", f"2026-01-31T0{hour + 1}:00:00Z"
        producer.produce("results", json.dumps({"window_start": start, "window_end": end, "page": page, "views": hour + 1}), start)
    assert producer.flush(30) == 0
    drawn = tmp_path / "views.html"
    file.write_text(file.read_text() + '\n[kafka]\n"compression.type" = "zstd"\n')
    outcome = millstream("pipeline", "picture", str(file), "--to", str(drawn))
    assert (outcome.code, outcome.out) == (0, f"{drawn}: views of 3 windows\n")
    assert drawn.read_text().count("<polyline") == 2
    outcome = millstream("pipeline", "picture", str(file), "--to", str(drawn), "--measure", "top")
    assert (outcome.code, "There are: views" in outcome.err) == (2, True)
    outcome = millstream("pipeline", "picture", str(file), "--to", str(tmp_path / "none" / "views.html"))
    assert (outcome.code, "cannot write" in outcome.err) == (1, True)
