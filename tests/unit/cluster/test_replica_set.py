"""The leader's view of its replicas: the high watermark, and the in-sync set that it asks for."""

from dataclasses import dataclass

import pytest

from millstream.cluster.replica_set import ReplicaSet
from millstream.coordination.partition_state import PartitionState

STATE = PartitionState((1, 2, 3), leader=1, leader_epoch=5, in_sync_replicas=(1, 2, 3))
LAG_MS = 1_000
ALL = frozenset({1, 2, 3})


def replicas(state: PartitionState = STATE, *, start: int = 100, high_watermark: int = 90) -> ReplicaSet:
    return ReplicaSet(1, state, high_watermark=high_watermark, epoch_start_offset=start, lag_ms=LAG_MS, now_ms=0)


@dataclass
class Position:
    """A follower's place in its fetch session."""

    fetched_ms: int


def fetch(
    made: ReplicaSet, replica: int, offset: int, *, end: int, now_ms: int = 0, epoch: int = 7, position: Position | None = None
) -> bool:
    return made.fetched(replica, offset, broker_epoch=epoch, log_start_offset=0, leader_end=end, now_ms=now_ms, position=position)


def advance(made: ReplicaSet, end: int, *, minimum: int = 2, now_ms: int = 0) -> int:
    return made.advance(end, min_insync_replicas=minimum, now_ms=now_ms)


def test_the_high_watermark_is_the_smallest_end_of_the_in_sync_replicas() -> None:
    made = replicas()
    assert advance(made, 120) == 90
    fetch(made, 2, 110, end=120)
    assert advance(made, 120) == 90
    fetch(made, 3, 105, end=120)
    assert advance(made, 120) == 105


def test_a_leader_resigns_in_favour_of_those_in_sync() -> None:
    made = replicas(STATE._replace(in_sync_replicas=(1, 2)))
    assert made.resignation(able=ALL) == {2: -1}
    fetch(made, 2, 110, end=120)
    assert made.resignation(able=ALL) == {2: 7}
    assert made.resignation(able={1, 3}) is None
    made.asked((1, 2, 3))
    assert made.resignation(able=ALL) is None, "one change is under way at a time"


def test_it_never_goes_back() -> None:
    made = replicas()
    fetch(made, 2, 110, end=120)
    fetch(made, 3, 110, end=120)
    assert advance(made, 120) == 110
    fetch(made, 3, 100, end=120)
    assert advance(made, 120) == 110


def test_it_stands_still_while_the_in_sync_set_is_too_small() -> None:
    made = replicas(STATE._replace(in_sync_replicas=(1,)))
    assert advance(made, 120) == 90
    assert advance(made, 120, minimum=1) == 120


def test_it_stands_still_while_others_may_lead_because_it_stood_still() -> None:
    """A lower minimum counts when the controller has let the eligible leaders go: until then one of them may be elected."""
    state = STATE._replace(in_sync_replicas=(1,), eligible_leaders=(2,))
    made = replicas(state)
    assert advance(made, 120, minimum=1) == 90
    made.decided(state._replace(eligible_leaders=(), partition_epoch=1), now_ms=0)
    assert advance(made, 120, minimum=1) == 120


def test_one_replica_alone_commits_what_it_has() -> None:
    made = replicas(PartitionState((1,), leader=1, leader_epoch=0, in_sync_replicas=(1,)), start=0, high_watermark=0)
    assert advance(made, 10, minimum=2) == 10


def test_a_replica_that_comes_back_far_behind_is_not_waited_for_because_it_was_caught_up_before() -> None:
    made = replicas()
    for replica in (2, 3):
        fetch(made, replica, 110, end=110)
    assert advance(made, 110) == 110
    made.decided(STATE._replace(in_sync_replicas=(1, 2), partition_epoch=1), now_ms=10)
    fetch(made, 2, 120, end=120, now_ms=20)
    fetch(made, 3, 112, end=120, now_ms=20, epoch=8)
    assert advance(made, 120, now_ms=20) == 120


def test_a_follower_that_is_gone_is_not_about_to_join() -> None:
    """It left cleanly, and fetched until the end."""
    made = replicas(STATE._replace(in_sync_replicas=(1, 2)))
    for replica in (2, 3):
        fetch(made, replica, 110, end=110)
    fetch(made, 2, 120, end=120)
    assert advance(made, 120) == 110
    assert made.advance(120, min_insync_replicas=2, now_ms=0, is_able=lambda replica: replica != 3) == 120


def test_those_of_a_set_that_was_asked_for_count_as_well() -> None:
    made = replicas(STATE._replace(in_sync_replicas=(1, 2)))
    fetch(made, 2, 120, end=120)
    fetch(made, 3, 100, end=120)
    made.asked((1, 2, 3))
    assert advance(made, 120) == 100
    made.refused()
    assert advance(made, 120) == 120


def test_a_set_that_was_asked_for_counts_until_a_newer_state_is_known() -> None:
    made = replicas(STATE._replace(in_sync_replicas=(1, 2)))
    fetch(made, 2, 120, end=120)
    fetch(made, 3, 100, end=120)
    made.asked((1, 2, 3))
    made.decided(made.state, now_ms=0)
    assert advance(made, 120) == 100
    made.decided(STATE._replace(in_sync_replicas=(1, 2), partition_epoch=1), now_ms=LAG_MS * 2)
    assert advance(made, 120, now_ms=LAG_MS * 2) == 120


def test_a_replica_about_to_join_is_waited_for() -> None:
    made = replicas(STATE._replace(in_sync_replicas=(1, 2)))
    fetch(made, 2, 120, end=120)
    fetch(made, 3, 110, end=110, now_ms=10)
    assert advance(made, 120, now_ms=20) == 110
    assert advance(made, 120, now_ms=10 + LAG_MS + 1) == 120


def test_a_replica_that_was_taken_out_is_not_waited_for_before_it_has_caught_up_again() -> None:
    made = replicas()
    for replica in (2, 3):
        fetch(made, replica, 120, end=120)
    made.decided(STATE._replace(in_sync_replicas=(1, 2), partition_epoch=1), now_ms=10)
    fetch(made, 2, 300, end=300, now_ms=20)
    assert advance(made, 300, now_ms=20) == 300, "it is gone, and not about to join"
    fetch(made, 2, 500, end=500, now_ms=20)
    fetch(made, 3, 120, end=500, now_ms=20, epoch=8)
    assert advance(made, 500, now_ms=20) == 500
    fetch(made, 3, 500, end=510, now_ms=30, epoch=8)
    fetch(made, 2, 510, end=510, now_ms=30)
    assert advance(made, 510, now_ms=30) == 500, "now it has all that there was when it last asked, and is about to join"


def test_a_former_life_of_a_follower_says_nothing() -> None:
    made = replicas()
    assert fetch(made, 2, 120, end=120, epoch=8)
    assert not fetch(made, 2, 130, end=130, epoch=7)
    assert not fetch(made, 9, 130, end=130)


def test_a_replica_that_the_controller_took_out_is_not_waited_for_until_it_fetches_again() -> None:
    made = replicas()
    fetch(made, 2, 110, end=110)
    fetch(made, 3, 110, end=110)
    assert advance(made, 110) == 110
    made.decided(STATE._replace(in_sync_replicas=(1, 2), partition_epoch=1), now_ms=10)  # broker 3 was killed
    fetch(made, 2, 120, end=120, now_ms=10)
    assert advance(made, 120, now_ms=10) == 120
    fetch(made, 3, 120, end=120, now_ms=20)
    fetch(made, 2, 130, end=130, now_ms=20)
    assert advance(made, 130, now_ms=20) == 120


def test_who_lags_leaves_and_who_has_caught_up_joins() -> None:
    made = replicas(STATE._replace(in_sync_replicas=(1, 2)))
    fetch(made, 2, 110, end=120, now_ms=0)
    fetch(made, 3, 105, end=120, now_ms=0, epoch=9)
    assert made.wanted_change(120, able=ALL, now_ms=1) == {1: -1, 2: 7, 3: 9}
    assert made.wanted_change(120, able={1, 2}, now_ms=1) is None
    assert made.wanted_change(120, able={1, 2}, now_ms=LAG_MS + 1) == {1: -1}


def test_who_has_not_reached_the_leaders_epoch_does_not_join() -> None:
    made = replicas(STATE._replace(in_sync_replicas=(1, 2)))
    fetch(made, 3, 99, end=120)
    assert made.wanted_change(120, able=ALL, now_ms=1) is None


def test_one_change_at_a_time() -> None:
    made = replicas(STATE._replace(in_sync_replicas=(1, 2)))
    fetch(made, 3, 120, end=120)
    wanted = made.wanted_change(120, able=ALL, now_ms=1)
    assert wanted is not None
    made.asked(wanted)
    assert made.wanted_change(120, able=ALL, now_ms=1) is None


@pytest.mark.parametrize(("offsets", "is_in_sync"), [((100, 110, 120), True), ((100, 101, 102), False)])
def test_a_follower_that_reaches_the_former_end_was_caught_up_then(offsets: tuple[int, ...], is_in_sync: bool) -> None:
    """The leader is written to all the time, so that its end is never reached: what counts is the end at the fetch before."""
    made = replicas(STATE._replace(in_sync_replicas=(1, 2)))
    for number, offset in enumerate(offsets):
        fetch(made, 2, offset, end=offset + 10 if is_in_sync else 200, now_ms=number * 800)
    assert (made.wanted_change(300, able={1, 2}, now_ms=1_700) is None) is is_in_sync


def idle(*, fetched_ms: int, offset: int = 120) -> ReplicaSet:
    """Both followers were counted at the time 0; the second one has a session since."""
    made = replicas()
    fetch(made, 2, 120, end=120)
    fetch(made, 3, offset, end=120, position=Position(fetched_ms))
    return made


def test_a_follower_at_the_end_stays_in_sync_however_long_ago_it_said_so() -> None:
    assert idle(fetched_ms=0).wanted_change(120, able=ALL, now_ms=100 * LAG_MS) is None


def test_a_follower_was_caught_up_at_the_last_request_of_its_session_before_the_log_went_on() -> None:
    made = idle(fetched_ms=5_000)
    made.grew_from(120)
    assert made.wanted_change(121, able=ALL, now_ms=5_000 + LAG_MS) == {1: -1, 3: 7}
    assert made.wanted_change(121, able=ALL, now_ms=5_001 + LAG_MS) == {1: -1}


def test_requests_after_the_log_went_on_say_nothing_of_a_follower_that_is_behind() -> None:
    made = idle(fetched_ms=5_000, offset=119)
    made.grew_from(120)
    assert made.wanted_change(121, able=ALL, now_ms=5_000) == {1: -1}


def test_a_follower_that_was_put_out_is_not_waited_for_because_its_session_goes_on() -> None:
    made = idle(fetched_ms=5_000)
    made.decided(STATE._replace(in_sync_replicas=(1, 2), partition_epoch=1), now_ms=4_000)
    made.grew_from(120)
    fetch(made, 2, 130, end=130, now_ms=5_000)
    assert advance(made, 130, now_ms=5_000) == 130


def test_a_follower_that_was_put_out_and_taken_in_again_in_one_session_stays_while_that_goes_on() -> None:
    """An answer that comes late puts it out although it has everything by then; what it says in its session counts when it is back."""
    made = idle(fetched_ms=9_000)
    made.decided(STATE._replace(in_sync_replicas=(1, 2), partition_epoch=1), now_ms=4_000)
    made.decided(STATE._replace(partition_epoch=2), now_ms=4_010)
    made.grew_from(120)
    assert made.wanted_change(121, able=ALL, now_ms=9_000 + LAG_MS) == {1: -1, 3: 7}


def test_the_closest_reader_is_the_most_caught_up_in_sync_follower_that_has_the_offset() -> None:
    made = replicas()
    assert made.closest_reader(0, near=ALL) is None, "none has said what it has"
    fetch(made, 2, 110, end=120, now_ms=5)
    fetch(made, 3, 120, end=120, now_ms=4)
    assert made.closest_reader(100, near=ALL) == 3
    assert made.closest_reader(100, near=[1, 2]) == 2
    assert made.closest_reader(115, near=[1, 2]) is None
    assert made.closest_reader(121, near=ALL) is None
    fetch(made, 2, 120, end=120, now_ms=5)
    assert made.closest_reader(100, near=ALL) == 2, "of two that have the same, the one that had everything later"
    made.decided(STATE._replace(in_sync_replicas=(1, 3), partition_epoch=9), now_ms=6)
    assert made.closest_reader(100, near=ALL) == 3
    made.fetched(3, 120, broker_epoch=7, log_start_offset=101, leader_end=120, now_ms=7)
    assert made.closest_reader(100, near=ALL) is None, "what it has begins behind that"
