import json
from collections.abc import Mapping
from pathlib import Path

import pytest

from millstream.errors import CommandFailed
from millstream.lake.load_batch import LoadedRange
from millstream.spark.jobs.load.batch_offsets import query_id_at, ranges_of


def write_offsets(checkpoint: Path, batch_id: int, *sources: Mapping[str, object]) -> None:
    (checkpoint / "offsets").mkdir(exist_ok=True)
    lines = ["v1", '{"batchWatermarkMs":0}', *map(json.dumps, sources)]
    (checkpoint / "offsets" / str(batch_id)).write_text("\n".join(lines))


def test_a_micro_batch_begins_where_the_last_one_ended(tmp_path: Path) -> None:
    began = {"clicks": {"0": 5, "1": 9}, "began at": {}, "clicks began at": {"0": 2, "1": 9}}
    write_offsets(tmp_path, 0, began)
    write_offsets(tmp_path, 1, {"clicks": {"0": 8, "1": 9, "2": 4}})
    assert ranges_of(str(tmp_path), 0, "clicks") == (LoadedRange(0, 2, 5),)
    assert ranges_of(str(tmp_path), 1, "clicks") == (LoadedRange(0, 5, 8), LoadedRange(2, 0, 4))
    assert ranges_of(str(tmp_path), 1, "views") == ()


def test_a_checkpoint_that_is_incomplete_is_said(tmp_path: Path) -> None:
    with pytest.raises(CommandFailed, match="has no offsets/3: it is incomplete"):
        ranges_of(str(tmp_path), 3, "clicks")
    write_offsets(tmp_path, 0, {"a": {"0": 1}}, {"b": {"0": 1}})
    with pytest.raises(CommandFailed, match="has offsets of 2 sources in micro-batch 0"):
        ranges_of(str(tmp_path), 0, "clicks")
    (tmp_path / "metadata").write_text('{"id": "q"}')
    assert query_id_at(str(tmp_path)) == "q"
