from contextlib import nullcontext
from pathlib import Path
from typing import NamedTuple

import pytest
from pyspark.sql.types import StructType

from millstream.lake.data_file import DataFile
from millstream.spark.jobs.load.settings import LoadSettings
from millstream.spark.jobs.load.table_sink import FilesWritten, TableWriter

FILE = "event_date=2026-11-16/event_hour=8/part-1.zstd.parquet"


@pytest.fixture
def written(tmp_path: Path) -> Path:
    path = tmp_path / "lake" / "clicks" / FILE
    path.parent.mkdir(parents=True)
    path.write_bytes(b"rows")
    return path


@pytest.fixture
def writer(tmp_path: Path) -> TableWriter:
    settings = LoadSettings(
        brokers="127.0.0.1:9092",
        topics=("clicks",),
        to=str(tmp_path / "lake"),
        checkpoint=str(tmp_path / "checkpoint"),
        sql="SELECT * FROM messages",
    )
    return TableWriter(settings, StructType())


def message() -> FilesWritten:
    return FilesWritten((DataFile(FILE, 4, 1, "2026-11-16", 8, "{}"),))


class NoOffsets(NamedTuple):
    """Brokers that know a topic and do not say where it ends."""

    topic_id: None = None

    def topic(self, _: str) -> "NoOffsets":
        return self


def test_without_the_audit_nobody_asks_where_the_topic_ends(writer: TableWriter, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("millstream.spark.jobs.load.brokers.open_cluster", lambda _: nullcontext(NoOffsets()))
    (tmp_path / "checkpoint" / "offsets").mkdir(parents=True)
    (tmp_path / "checkpoint" / "metadata").write_text('{"id": "query"}')
    (tmp_path / "checkpoint" / "offsets" / "0").write_text('v1\n{}\n{"clicks": {"0": 5}, "began at": {}, "clicks began at": {"0": 2}}')
    batch = writer._batch(0, ())
    assert (batch.ranges, batch.progress_ms, batch.is_behind) == (((0, 2, 5),), None, False)


def test_files_of_tasks_are_deleted_when_another_task_failed(writer: TableWriter, written: Path) -> None:
    writer.abort([message(), None], 0)
    assert not written.exists()


def test_files_that_the_table_may_have_are_kept_when_the_commit_failed(writer: TableWriter, written: Path) -> None:
    writer.abort([message(), message()], 0)
    assert written.exists()
