"""What the commit of a micro-batch makes of the messages of its tasks."""

import logging

import pytest

from millstream.batch_memory import batch_memory_of
from millstream.client.transactions import OpenTransaction
from millstream.spark.exactly_once.driver import TakenOver
from millstream.spark.sink.sink_progress import WrittenBatch
from millstream.spark.sink.writer import (
    BatchWritten,
    ReplayDiffers,
    UnfinishedBatch,
    add_up,
    check_finished,
    check_replay,
    check_unchanged,
    check_unfinished,
    warn_of_rollback,
)

TOPICS = frozenset({"t"})
OPENED = (OpenTransaction("millstream-sink-q-t-0-0", 7, 3),)
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


@pytest.mark.parametrize("now", [None, LAST._replace(turn=4), LAST._replace(batch_id=8), LAST._replace(digest=1)])
def test_another_record_than_the_one_that_tasks_saw_is_that_of_another_driver(now: WrittenBatch | None) -> None:
    written = [BatchWritten("q", TOPICS, 3, remembered=LAST)]
    check_unchanged(written, LAST)
    check_unchanged(written, LAST._replace(transactions=OPENED))
    with pytest.raises(TakenOver, match=r"another driver has taken this query over: .* while this one wrote another"):
        check_unchanged(written, now)


def test_tasks_that_saw_different_records_are_those_of_two_drivers() -> None:
    check_unchanged([BatchWritten("q", TOPICS, 3)], None)
    with pytest.raises(TakenOver, match="the micro-batch 7 was committed"):
        check_unchanged([BatchWritten("q", TOPICS, 3, remembered=LAST), BatchWritten("q", TOPICS, 3)], LAST)


def test_what_is_decided_and_not_committed_has_to_come_again_first() -> None:
    decided = LAST._replace(transactions=OPENED)
    for remembered, batch_id in ((None, 8), (LAST, 8), (decided, 7), (decided, 6)):
        check_finished(remembered, batch_id)
    with pytest.raises(UnfinishedBatch, match=r"7 with 10 rows was decided, but .* now 8 comes .*skipReplayedBatches = false"):
        check_finished(decided, 8)


@pytest.mark.parametrize("now", [LAST, None, LAST._replace(batch_id=8, turn=4, transactions=OPENED)])
def test_what_another_driver_has_committed_is_not_lost(now: WrittenBatch | None) -> None:
    decided = LAST._replace(transactions=OPENED)
    check_unfinished(decided, decided)
    with pytest.raises(TakenOver, match="it has committed the micro-batch 7"):
        check_unfinished(decided, now)


def test_the_group_carries_the_target() -> None:
    assert batch_memory_of("q", "a") != batch_memory_of("q", "b") != batch_memory_of("q", None)
