import json
from pathlib import Path

from millstream.spark.jobs.running.batch_progress import BatchProgress
from millstream.spark.jobs.running.progress import JobProgress, write_progress
from tests.unit.cli.conftest import Millstream

BATCH = BatchProgress(
    batch_id=3, finished_ms=2_000, duration_ms=500, rows=1_000, malformed=1, late=0, lag_messages=4, lag_seconds=0.5, watermark="2026-05-04"
)


def test_the_last_progress_is_shown(millstream: Millstream, tmp_path: Path) -> None:
    write_progress(str(tmp_path), JobProgress("clicks", 1_000, 1_000).after(BATCH))
    shown = millstream("pipeline", "status", "--checkpoint", str(tmp_path))
    assert shown.code == 0
    for part in (
        "clicks (running)",
        "1,000 rows in 1 batches, 1 malformed",
        "3: 1,000 rows, 2,000 rows/s, 500 ms",
        "4 messages, 0.5 s",
        "2026-05-04",
    ):
        assert part in shown.out
    [document] = millstream("pipeline", "status", "--checkpoint", str(tmp_path), "--output", "json").documents
    assert (document["last"]["rows"], document["group_lag"]) == (1_000, None)


def test_a_job_that_failed_is_exit_code_1(millstream: Millstream, tmp_path: Path) -> None:
    write_progress(str(tmp_path), JobProgress("clicks", 1_000, 1_000).ended("failed", 2_000, "no disk"))
    shown = millstream("pipeline", "status", "--checkpoint", str(tmp_path))
    assert shown.code == 1
    assert "no disk" in shown.out


def test_a_broker_that_is_away_does_not_hide_the_progress(millstream: Millstream, tmp_path: Path) -> None:
    write_progress(str(tmp_path), JobProgress("clicks", 1_000, 1_000, brokers="127.0.0.1:1", group="g").after(BATCH))
    shown = millstream("pipeline", "status", "--checkpoint", str(tmp_path), "--output", "json")
    assert "No broker answers" in json.loads(shown.out)["group_lag"]["error"]


def test_no_job_is_said(millstream: Millstream, tmp_path: Path) -> None:
    shown = millstream("pipeline", "status", "--checkpoint", str(tmp_path))
    assert (shown.code, shown.err[:40]) == (1, "millstream: No job has run with the chec")
