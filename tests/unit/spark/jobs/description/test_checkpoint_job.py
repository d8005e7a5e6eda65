from pathlib import Path

import pytest

from millstream.errors import UsageError
from millstream.spark.jobs.description.checkpoint_job import check_checkpoint

IDS = {"views": "id-1"}
JOB = {"job": "windows", "window": {"size": "10 minutes", "by": ("page",)}}


def test_a_checkpoint_belongs_to_the_job_that_used_it_first(tmp_path: Path) -> None:
    checkpoint = str(tmp_path / "checkpoint")
    check_checkpoint(checkpoint, JOB, topic_ids=IDS)
    check_checkpoint(checkpoint, JOB, topic_ids=IDS)
    with pytest.raises(UsageError, match=r'window.size was "10 minutes" and is "1 hour"\. Give the changed job a checkpoint'):
        check_checkpoint(checkpoint, {**JOB, "window": {"size": "1 hour", "by": ("page",)}}, topic_ids=IDS)
    with pytest.raises(UsageError, match='replay from was null and is "beginning"'):
        check_checkpoint(checkpoint, {**JOB, "replay from": "beginning"}, topic_ids=IDS)


def test_the_checkpoint_of_a_foreign_query_is_refused(tmp_path: Path) -> None:
    (tmp_path / "offsets").mkdir()
    with pytest.raises(UsageError, match="the checkpoint of another query"):
        check_checkpoint(str(tmp_path), JOB, topic_ids=IDS)


def test_a_mark_that_cannot_be_read_is_said(tmp_path: Path) -> None:
    (tmp_path / "millstream-job.json").write_text("{")
    with pytest.raises(UsageError, match=r"millstream-job.json cannot be read"):
        check_checkpoint(str(tmp_path), JOB, topic_ids=IDS)


def test_a_checkpoint_that_is_not_on_this_machine_is_not_looked_at(tmp_path: Path) -> None:
    check_checkpoint("hdfs://name-node/checkpoints/views", JOB, topic_ids=IDS)


def test_a_topic_that_was_created_again_is_another_one(tmp_path: Path) -> None:
    check_checkpoint(str(tmp_path), JOB, topic_ids=IDS)
    check_checkpoint(str(tmp_path), JOB, topic_ids={})
    with pytest.raises(UsageError, match=r"the topic views was deleted and created again since .* its offsets mean other messages"):
        check_checkpoint(str(tmp_path), JOB, topic_ids={"views": "id-2"})
