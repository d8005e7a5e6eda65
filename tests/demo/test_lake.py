"""Reading back tables of a load."""

from collections import Counter
from pathlib import Path

import pyarrow as pa
from deltalake import CommitProperties, DeltaTable, write_deltalake

from demo.lake import Lake
from millstream.lake.load_batch import LoadBatch, LoadedRange

MOMENT = pa.timestamp("us", tz="UTC")


def write(directory: Path, topic: str, columns: dict[str, list[object]], *, ranges: list[LoadedRange]) -> None:
    """A commit as a load makes it, of rows of one partition."""
    count = ranges[0].end - ranges[0].start
    arrays = {name: pa.array(values) for name, values in columns.items()}
    arrays |= {name: pa.array([1_000_000 * (number + 1) for number in range(count)], MOMENT) for name in ("at", "sent_at")}
    arrays |= {"kafka_partition": pa.array([0] * count, pa.int32()), "kafka_offset": pa.array(range(ranges[0].start, ranges[0].end))}
    batch = LoadBatch("query", ranges[0].start, topic, None, tuple(ranges), ())
    properties = CommitProperties(custom_metadata=batch.metadata())
    write_deltalake(str(directory / topic), pa.table(arrays), mode="append", schema_mode="merge", commit_properties=properties)


def test_rows_from_before_a_column_count_as_those_with_its_default(tmp_path: Path) -> None:
    view: dict[str, list[object]] = {"view": ["a"], "page": ["/"], "user": ["ann"]}
    write(tmp_path, "page-views", view, ranges=[LoadedRange(0, 0, 1)])
    write(tmp_path, "page-views", {**view, "device": ["unknown"]}, ranges=[LoadedRange(0, 1, 2)])
    write(tmp_path, "page-views", {**view, "device": ["phone"]}, ranges=[LoadedRange(0, 2, 3)])
    lake = Lake(tmp_path)
    assert lake.count() == 3
    assert lake.rows("page-views") == Counter({("a", "/", "ann", 1_000, "unknown"): 2, ("a", "/", "ann", 1_000, "phone"): 1})


def test_the_delay_is_from_sending_to_the_commit_that_has_the_offset(tmp_path: Path) -> None:
    for topic in ("page-views", "clicks", "searches"):
        write(tmp_path, topic, {"user": ["ann", "bob"]}, ranges=[LoadedRange(0, 0, 2)])
        write(tmp_path, topic, {"user": ["eve"]}, ranges=[LoadedRange(0, 2, 3)])
    commits = [
        commit["timestamp"] for topic in ("page-views", "clicks", "searches") for commit in DeltaTable(str(tmp_path / topic)).history()
    ]
    late, early = commits[::2], commits[1::2]
    expected = [commit - sent for commit in early for sent in (1_000, 2_000)] + [commit - 1_000 for commit in late]
    assert sorted(Lake(tmp_path).delays_ms(since_ms=0).tolist()) == sorted(expected)
    assert len(Lake(tmp_path).delays_ms(since_ms=1_500)) == 3
