import pytest

from millstream.cli.group.verdict import Progress, Word, word, word_at_once
from millstream.topic_partition import TopicPartition

PLACE = TopicPartition("orders", 0)


def progress(*, members: int = 1, lag: int | None = 100, seconds: float | None = 60.0, committed: int = 0) -> Progress:
    return Progress(members, lag, seconds, {PLACE: committed})


@pytest.mark.parametrize(
    ("now", "expected"),
    [
        (progress(lag=0, seconds=0.0), Word.OK),
        (progress(lag=0, seconds=0.0, members=0), Word.OK),
        (progress(members=0), None),
        (progress(members=0, seconds=1.0), None),
        (progress(seconds=10.0), Word.OK),
        (progress(lag=None, seconds=None), Word.UNKNOWN),
        (progress(), None),
        (progress(seconds=None), None),
    ],
)
def test_some_words_need_no_waiting(now: Progress, expected: Word | None) -> None:
    assert word_at_once(now) == expected


@pytest.mark.parametrize(
    ("now", "expected"),
    [
        (progress(), Word.STUCK),
        (progress(lag=200), Word.STUCK),
        (progress(committed=5, lag=95), Word.OK),
        (progress(committed=5, lag=100), Word.SLOW),
        (progress(committed=5, lag=130), Word.SLOW),
        (progress(committed=5, lag=130, seconds=2.0), Word.OK),
        (progress(members=0), Word.DEAD),
        (progress(members=0, seconds=1.0), Word.DEAD),
        (progress(members=0, committed=5, lag=95), Word.OK),
        (progress(members=0, committed=5, lag=130), Word.SLOW),
        (progress(members=0, committed=5, lag=130, seconds=2.0), Word.OK),
    ],
)
def test_a_group_that_lags_is_judged_by_what_it_commits(now: Progress, expected: Word) -> None:
    assert word(progress(), now) == expected
