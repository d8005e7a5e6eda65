import pyarrow as pa

from millstream.lake.bucket_counts import BucketCount
from millstream.lake.data_file import DataFile
from millstream.lake.load_batch import LoadedRange
from millstream.spark.jobs.load.commit import batches_of
from millstream.spark.jobs.load.task_result import TableResult, TaskResult, TopicResult, tables_of

SCHEMA = pa.schema([("n", pa.int64()), ("list", pa.list_(pa.string()))])


def result(start: int, end: int) -> TaskResult:
    counts = (BucketCount(0, 600_000, end - start, 10, 0, (start, end)),)
    file = DataFile(f"part-{start}", 100, end - start, "2026-05-04", 12, "{}")
    return TaskResult(
        {"clicks": TopicResult("id", (LoadedRange(0, start, end),), counts, None)}, {"clicks": TableResult("clicks", (file,), SCHEMA)}
    )


def test_what_a_task_did_travels_as_text() -> None:
    assert TaskResult.of(result(0, 5).text()) == result(0, 5)


def test_tasks_are_put_together() -> None:
    tasks = [result(5, 9), result(0, 5)]
    [table] = tables_of(tasks).values()
    assert [file.path for file in table.files] == ["part-5", "part-0"]
    [batch] = batches_of(tasks, "q", 3).values()
    assert (batch.batch_id, batch.topic, batch.topic_id, batch.ranges) == (3, "clicks", "id", (LoadedRange(0, 0, 9),))
    assert sum(count.count for count in batch.counts) == 9
