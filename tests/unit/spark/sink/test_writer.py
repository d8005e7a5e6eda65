"""What the commit of a micro-batch makes of the messages of its tasks."""

import logging

import pytest

from millstream.batch_memory import batch_memory_of
from millstream.spark.sink.sink_progress import WrittenBatch
from millstream.spark.sink.writer import BatchWritten, ReplayDiffers, add_up, check_replay, warn_of_rollback

TOPICS = frozenset({"t"})
LAST = WrittenBatch(7, 10, 99, TOPICS, turn=3, run="writer/2-0000000000000007", report=1)


def test_tasks_add_up_to_the_micro_batch() -> None:
    messages = [BatchWritten("q", TOPICS, 3, 2**64 - 1, remembered=LAST), BatchWritten("q", frozenset({"u"}), 4, 5, remembered=LAST)]
    assert add_up(messages, 8) == (WrittenBatch(8, 7, 4, frozenset({"t", "u"}), turn=4), LAST)


def test_reports_are_numbered_as_long_as_they_are_remembered() -> None:
    """Kafka forgets a group that rests, and the audit may be switched on later: another run begins then, under another name."""

    def numbered(remembered: WrittenBatch | None, tier: str | None) -> tuple[str, int]:
        batch, _ = add_up([BatchWritten("q", TOPICS, 3, 255, remembered=remembered)], 90, tier=tier)
        return batch.run, batch.report

    assert numbered(LAST, "writer") == (LAST.run, 2)
    assert numbered(None, "writer") == numbered(LAST._replace(run="", report=0), "writer") == ("writer/90-00000000000000ff", 0)
    assert numbered(LAST, "writer2") == ("writer2/90-00000000000000ff", 0)
    assert numbered(LAST, None) == ("", 0)
    assert add_up([BatchWritten("q", frozenset(), 0)], 0) == (WrittenBatch(0, 0, 0, frozenset()), None)


def test_a_replay_of_the_same_rows_passes() -> None:
    check_replay(LAST._replace(turn=4, topics=frozenset()), LAST, is_whole=True)


@pytest.mark.parametrize(
    ("batch", "is_whole", "message"),
    [
        (LAST._replace(row_count=11), True, r"7 is on t already, and now it has 11 rows where there were 10: nothing of it was written"),
        (LAST._replace(digest=98), True, r"has as many rows as then, 10, but others: .* skipReplayedBatches = false"),
        (LAST, False, r"7 was written to t by another query while this one wrote it, too: .* Stop one of them"),
    ],
)
def test_a_replay_of_other_rows_does_not(batch: WrittenBatch, is_whole: bool, message: str) -> None:
    with pytest.raises(ReplayDiffers, match=message):
        check_replay(batch, LAST, is_whole=is_whole)


def test_a_checkpoint_that_went_back_is_a_warning(caplog: pytest.LogCaptureFixture) -> None:
    warn_of_rollback(LAST._replace(batch_id=6, topics=frozenset()), LAST)
    (record,) = caplog.records
    assert record.levelno == logging.WARNING
    assert "micro-batch 6 was written to t after 7 had been: the checkpoint was rolled back or copied" in record.getMessage()


def test_the_group_carries_the_target() -> None:
    assert batch_memory_of("q", "a") != batch_memory_of("q", "b") != batch_memory_of("q", None)
