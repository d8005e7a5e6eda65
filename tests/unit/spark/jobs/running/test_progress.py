import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from millstream.errors import CommandFailed
from millstream.spark.jobs.running.batch_progress import BatchProgress
from millstream.spark.jobs.running.progress import FILE_NAME, JobProgress, local_directory, read_job_progress, write_progress

BATCH = BatchProgress(
    batch_id=3, finished_ms=2_000, duration_ms=500, rows=10, malformed=1, late=2, lag_messages=4, lag_seconds=0.5, watermark=None
)


def test_what_is_written_is_read(tmp_path: Path) -> None:
    progress = JobProgress("load", 1_000, 1_000, brokers="127.0.0.1:9092", group="lake").after(BATCH).after(BATCH)
    write_progress(str(tmp_path / "checkpoint"), progress)
    assert read_job_progress(str(tmp_path / "checkpoint")) == progress
    assert (progress.batches, progress.rows, progress.malformed, progress.late, progress.at_ms) == (2, 20, 2, 4, 2_000)
    assert [path.name for path in (tmp_path / "checkpoint").iterdir()] == [FILE_NAME]


def test_a_job_whose_process_is_gone_was_killed(tmp_path: Path) -> None:
    with subprocess.Popen([sys.executable, "-c", ""]) as process:
        process.wait()
    progress = JobProgress("load", 1_000, 1_000, pid=process.pid)
    write_progress(str(tmp_path), progress)
    assert read_job_progress(str(tmp_path)).state == "killed"
    write_progress(str(tmp_path), progress.ended("failed", 3_000, "no disk"))
    assert read_job_progress(str(tmp_path)).error == "no disk"
    write_progress(str(tmp_path), replace(progress, pid=os.getpid()))
    assert read_job_progress(str(tmp_path)).state == "running"


def test_what_is_no_progress_is_said(tmp_path: Path) -> None:
    with pytest.raises(CommandFailed, match="No job has run with the checkpoint"):
        read_job_progress(str(tmp_path))
    (tmp_path / FILE_NAME).write_text('{"name": 1')
    with pytest.raises(CommandFailed, match="cannot be read"):
        read_job_progress(str(tmp_path))
    with pytest.raises(CommandFailed, match="not a directory of this machine"):
        read_job_progress("hdfs://nn/checkpoint")


def test_a_checkpoint_of_another_machine_has_no_file(tmp_path: Path) -> None:
    write_progress("hdfs://nn/checkpoint", JobProgress("load", 1, 1))
    assert local_directory("file:///data/x") == Path("/data/x")
    assert local_directory("file:/data/x") == Path("/data/x")
    assert local_directory("s3a://bucket/x") is None
