from dataclasses import replace
from pathlib import Path

import pytest

from millstream.errors import UsageError
from millstream.spark.jobs.load.identity import check_checkpoint
from millstream.spark.jobs.load.settings import LoadSettings
from millstream.spark.jobs.running.progress import local_directory


@pytest.fixture
def settings(tmp_path: Path) -> LoadSettings:
    return LoadSettings(brokers="127.0.0.1:9092", topics=("a", "b"), to="lake", checkpoint=str(tmp_path / "checkpoint"))


def test_a_checkpoint_belongs_to_one_load(settings: LoadSettings) -> None:
    check_checkpoint(settings)
    check_checkpoint(settings)
    check_checkpoint(replace(settings, topics=("a", "b", "c")))
    with pytest.raises(UsageError, match="has loaded c too"):
        check_checkpoint(settings)
    with pytest.raises(UsageError, match="belongs to the load into delta tables at lake"):
        check_checkpoint(replace(settings, to="elsewhere"))


def test_a_checkpoint_of_another_query_is_refused(settings: LoadSettings) -> None:
    Path(settings.checkpoint).mkdir()
    Path(settings.checkpoint, "metadata").write_text('{"id": "x"}')
    with pytest.raises(UsageError, match="belongs to another query"):
        check_checkpoint(settings)


def test_a_checkpoint_that_cannot_be_a_directory_is_said(settings: LoadSettings) -> None:
    Path(settings.checkpoint).write_text("a file")
    with pytest.raises(UsageError, match="cannot be a directory to write to: File exists"):
        check_checkpoint(settings)


def test_checkpoints_elsewhere_are_not_looked_into(settings: LoadSettings) -> None:
    assert local_directory("here") is not None
    assert local_directory("file:///here") is not None
    assert local_directory("hdfs://nn/here") is None
    check_checkpoint(replace(settings, checkpoint="hdfs://nn/here"))
