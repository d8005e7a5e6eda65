import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from millstream.audited.batch_reports import BatchProgress
from millstream.lake.columns import file_schema
from millstream.lake.delta_table import DeltaWriter
from millstream.lake.load_batch import read_metadata
from millstream.spark.jobs.load import audit as load_audit
from millstream.spark.jobs.load.audit import FILE_NAME, report_batch, report_unpublished
from millstream.spark.jobs.load.settings import LoadSettings
from tests.unit.lake.test_delta_table import VALUE, batch


class Audit:
    """Stands in for the audit: takes reports while it is there."""

    def __init__(self) -> None:
        self.is_there = True
        self.sequences: list[tuple[int, dict[str, int]]] = []
        self.progress: dict[str, BatchProgress] = {}

    def publish(self, *_: object, sequence: int, counts: dict[str, list[Any]], progress: dict[str, BatchProgress], **__: object) -> bool:
        self.progress = progress
        if self.is_there:
            self.sequences.append((sequence, {topic: sum(count.count for count in some) for topic, some in counts.items()}))
        return self.is_there


def test_what_was_committed_and_not_published_is_published_when_the_load_starts_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    audit = Audit()
    monkeypatch.setattr(load_audit, "publish_batch", audit.publish)
    settings = LoadSettings(brokers="b:1", topics=("clicks", "views"), to=str(tmp_path), checkpoint=str(tmp_path), audit="lake")
    address = str(tmp_path / "table")
    (tmp_path / "metadata").write_text(json.dumps({"id": "q"}))
    (tmp_path / "commits").mkdir()
    for number in range(4):
        audit.is_there = number == 0
        one = batch(address, number, number, number + 1)
        DeltaWriter(address).commit(one, file_schema(VALUE))
        report_batch(settings, "q", number, {"clicks": one})
        # The last one died between two tables: it comes again, and only then is it known what all of them have.
        if number < 3:
            (tmp_path / "commits" / str(number)).write_text("v1")
    assert json.loads((tmp_path / FILE_NAME).read_text()) == {"published": 0}
    audit.is_there = True
    for _ in range(2):
        report_unpublished(settings, {"clicks": "table"})
    assert audit.sequences == [(number, {"clicks": 3, "views": 0}) for number in range(3)]


def test_a_load_with_a_backlog_says_so_while_it_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    audit = Audit()
    monkeypatch.setattr(load_audit, "publish_batch", audit.publish)
    settings = LoadSettings(brokers="b:1", topics=("clicks", "views"), to="lake", checkpoint=str(tmp_path), audit="lake")
    behind = replace(batch(str(tmp_path / "clicks"), 0, 0, 1), progress_ms=1_000, is_behind=True)
    done = replace(behind, topic="views", is_behind=False)
    kept = {topic: read_metadata(one.metadata()) for topic, one in (("clicks", behind), ("views", done))}
    batches = {topic: one for topic, one in kept.items() if one is not None}
    report_batch(settings, "q", 0, batches, next_report_ms=60_000)
    assert audit.progress == {"clicks": BatchProgress(1_000, 60_000), "views": BatchProgress(1_000)}
    # Published by a later run, which has not begun to read.
    report_batch(settings, "q", 0, batches)
    assert audit.progress == {"clicks": BatchProgress(1_000), "views": BatchProgress(1_000)}


def test_a_load_that_is_not_audited_reports_nothing(tmp_path: Path) -> None:
    settings = LoadSettings(brokers="b:1", topics=("clicks",), to="lake", checkpoint=str(tmp_path))
    report_batch(settings, "q", 0, {})
    report_unpublished(settings, {})
    assert list(tmp_path.iterdir()) == []
