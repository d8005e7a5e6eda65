import json
from pathlib import Path
from typing import Any

import pytest

from millstream.lake.columns import file_schema
from millstream.lake.delta_table import DeltaWriter
from millstream.spark.jobs import load_audit
from millstream.spark.jobs.load_audit import FILE_NAME, report_batch, report_unpublished
from millstream.spark.jobs.load_settings import LoadSettings
from tests.unit.lake.test_delta_table import VALUE, batch


class Audit:
    """Stands in for the audit: takes reports while it is there."""

    def __init__(self) -> None:
        self.is_there = True
        self.sequences: list[tuple[int, dict[str, int]]] = []

    def publish(self, *_: object, sequence: int, counts: dict[str, list[Any]], **__: object) -> bool:
        if self.is_there:
            self.sequences.append((sequence, {topic: sum(count.count for count in some) for topic, some in counts.items()}))
        return self.is_there


def test_what_was_committed_and_not_published_is_published_when_the_load_starts_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    audit = Audit()
    monkeypatch.setattr(load_audit, "publish_batch", audit.publish)
    settings = LoadSettings(brokers="b:1", topics=("clicks", "views"), to="lake", checkpoint=str(tmp_path), audit="lake")
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
        report_unpublished(settings, {"clicks": address})
    assert audit.sequences == [(number, {"clicks": 3, "views": 0}) for number in range(3)]


def test_a_load_that_is_not_audited_reports_nothing(tmp_path: Path) -> None:
    settings = LoadSettings(brokers="b:1", topics=("clicks",), to="lake", checkpoint=str(tmp_path))
    report_batch(settings, "q", 0, {})
    report_unpublished(settings, {})
    assert list(tmp_path.iterdir()) == []
