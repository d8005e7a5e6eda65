"""Where a follower cuts its log off."""

import pytest

from millstream.cluster.truncation import truncation_offset
from millstream.log.leader_epochs import EpochEnd, LeaderEpochs


@pytest.mark.parametrize(
    ("diverging", "offset"),
    [
        (EpochEnd(4, 70), 70),  # both have the epoch, the leader less of it
        (EpochEnd(4, 90), 80),  # the leader more
        (EpochEnd(3, 60), 50),  # no record of that epoch here: what was written before
        (EpochEnd(1, 40), 40),
    ],
)
def test_what_can_be_the_same_is_kept(diverging: EpochEnd, offset: int) -> None:
    assert truncation_offset(LeaderEpochs([(1, 0), (4, 50)]), diverging, log_end_offset=80) == offset


def test_an_epoch_that_is_not_known_here_truncates_nothing() -> None:
    with pytest.raises(ValueError, match="parts in epoch 5"):
        truncation_offset(LeaderEpochs([(1, 0)]), EpochEnd(5, 10), log_end_offset=80)
