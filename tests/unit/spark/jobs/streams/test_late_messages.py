"""Late messages are counted one by one, by the watermark that Spark went by."""

from pathlib import Path
from typing import Any

import pytest

from millstream.spark.jobs.streams.late_messages import late_messages, watermark_before

OFFSETS = """v1
{"batchWatermarkMs":600000,"batchTimestampMs":1700000000000,"conf":{}}
{"views":{"0":15}}
"""


@pytest.fixture
def checkpoint(tmp_path: Path) -> str:
    (tmp_path / "offsets").mkdir()
    (tmp_path / "offsets" / "3").write_text(OFFSETS)
    return str(tmp_path)


def reported(*ends: tuple[int | None, int], batch: int = 4) -> dict[str, Any]:
    return {"batchId": batch, "observedMetrics": {"windows-ends": {"ends": [{"item": item, "count": count} for item, count in ends]}}}


def test_messages_whose_window_was_over_when_the_micro_batch_began_are_late(checkpoint: str) -> None:
    assert late_messages(reported((540_000, 5), (600_000, 2), (600_001, 9), (None, 1)), checkpoint) == 7


def test_nothing_is_late_for_the_first_micro_batch(checkpoint: str) -> None:
    assert late_messages(reported((60_000, 5), batch=0), checkpoint) == 0


def test_what_is_not_known_is_not_guessed(checkpoint: str) -> None:
    assert late_messages({"batchId": 4, "observedMetrics": {"input": {"rows": 3}}}, checkpoint) is None
    assert late_messages(reported((60_000, 5), batch=9), checkpoint) is None
    assert watermark_before("hdfs://host/checkpoint", 4) is None
