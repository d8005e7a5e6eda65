from millstream.spark.jobs.running.batch_progress import BatchCounts, CountedRows, LagHistory, count_behind, read_progress
from millstream.topic_partition import TopicPartition

ZERO, ONE = TopicPartition("clicks", 0), TopicPartition("clicks", 1)
REPORTED = {
    "batchId": 7,
    "timestamp": "2026-05-04T12:00:00.000Z",
    "numInputRows": 4,
    "durationMs": {"triggerExecution": 500, "addBatch": 300},
    "eventTime": {"watermark": "2026-05-04T11:50:00.000Z"},
    "stateOperators": [{"numRowsDroppedByWatermark": 2}, {"numRowsDroppedByWatermark": 1}],
    "sources": [
        {
            "endOffset": {"began at": {}, "clicks": {"0": 10}, "clicks began at": {"0": 0}},
            "latestOffset": {"clicks": {"0": 12, "1": 3}},
        }
    ],
}


def test_progress_of_spark_is_read() -> None:
    batch = read_progress(REPORTED, LagHistory())
    assert (batch.batch_id, batch.rows, batch.duration_ms, batch.rows_per_second, batch.late) == (7, 4, 500, 8.0, 3)
    assert (batch.lag_messages, batch.lag_seconds, batch.watermark) == (5, 0.0, "2026-05-04T11:50:00.000Z")


def test_rows_that_a_job_counted_itself_go_before_those_of_spark() -> None:
    batch = read_progress(REPORTED, LagHistory(), CountedRows(1_000, malformed=3))
    assert (batch.rows, batch.malformed) == (1_000, 3)


def test_a_source_of_another_kind_has_no_lag() -> None:
    rate = {"endOffset": 5, "latestOffset": 9}
    assert read_progress({**REPORTED, "sources": [rate]}, LagHistory()).lag_messages is None


def test_lag_in_seconds_is_the_age_of_the_oldest_offset_that_waits() -> None:
    history = LagHistory()
    assert history.observe(1_000, {ZERO: 10}, {ZERO: 10}) == 0
    assert history.observe(2_000, {ZERO: 20}, {ZERO: 10}) == 0
    assert history.observe(5_000, {ZERO: 30}, {ZERO: 15}) == 3
    assert history.observe(6_000, {ZERO: 30}, {ZERO: 25}) == 1
    assert history.observe(7_000, {ZERO: 30}, {ZERO: 30}) == 0


def test_partitions_that_are_new_wait_whole() -> None:
    assert count_behind({ZERO: 5}, {ZERO: 4, ONE: 7}) == 7


def test_counts_of_batches_that_passed_are_forgotten() -> None:
    counts = BatchCounts()
    counts.note(1, 10)
    counts.note(2, 20, malformed=1)
    assert counts.take(2) == CountedRows(20, 1)
    assert counts.take(1) is None
