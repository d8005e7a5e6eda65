"""Joining a classic group: the handshake, the first rebalance, the choice of a protocol, the limits."""

from dataclasses import replace

import pytest

from millstream.errors import (
    GroupMaxSizeReached,
    InconsistentGroupProtocol,
    InvalidGroupId,
    InvalidRequest,
    InvalidSessionTimeout,
    MemberIdRequired,
    RebalanceInProgress,
    UnknownMemberId,
)
from millstream.groups.classic.records import GroupMetadata
from millstream.groups.commands import Protocol
from tests.machines.group_script import DELAY_MS, GROUP, RANGE, REBALANCE_MS, SESSION_MS, SETTINGS, START_MS, Script


def test_a_new_member_is_given_an_id_and_comes_back_with_it() -> None:
    script = Script()
    answer = script.answers[script.join(requires_known_member_id=True)]
    assert answer["error_code"] == MemberIdRequired.code
    member_id = str(answer["member_id"])
    assert member_id.startswith("client-")
    waiter = script.join(member_id, requires_known_member_id=True)
    assert script.waits(waiter)
    script.move(DELAY_MS)
    joined = script.joined(waiter)
    assert joined["leader"] == joined["member_id"] == member_id
    assert joined["generation_id"] == 1
    assert joined["members"] == [{"member_id": member_id, "group_instance_id": None, "metadata": RANGE[0].metadata}]


def test_a_new_group_is_remembered_as_an_empty_one() -> None:
    script = Script()
    script.join(requires_known_member_id=True)
    assert script.last_record() == (GROUP, GroupMetadata("", 0, None, None, START_MS, ()))
    assert script.restarted().state == "Empty"


def test_an_unused_member_id_is_forgotten_after_the_session_timeout() -> None:
    script = Script()
    member_id = str(script.answers[script.join(requires_known_member_id=True)]["member_id"])
    script.move(SESSION_MS)
    assert script.answers[script.join(member_id)]["error_code"] == UnknownMemberId.code


def test_a_member_that_is_refused_leaves_no_group_behind() -> None:
    script = Script()
    assert script.answers[script.join(protocols=())]["error_code"] == InconsistentGroupProtocol.code
    assert script.coordinator.list_groups() == []
    assert script.log == []


def test_the_first_rebalance_waits_for_more_members_as_long_as_they_keep_coming() -> None:
    script = Script()
    first = script.join()
    script.move(DELAY_MS - 1)
    second = script.join()
    script.move(1)
    assert script.waits(first)
    script.move(DELAY_MS)
    assert script.joined(first)["generation_id"] == script.joined(second)["generation_id"] == 1
    assert len(script.joined(first)["members"]) == 2  # type: ignore[arg-type]
    assert script.joined(second)["members"] == []
    assert script.joined(second)["leader"] == script.joined(first)["member_id"]


def test_the_first_rebalance_does_not_wait_longer_than_the_rebalance_timeout() -> None:
    script = Script()
    first = script.join()
    for _ in range(REBALANCE_MS // DELAY_MS):
        assert script.waits(first)
        script.move(DELAY_MS - 1)
        script.join()
        script.move(1)
    assert script.joined(first)["generation_id"] == 1


def test_without_an_initial_delay_the_first_member_is_answered_at_once() -> None:
    script = Script(replace(SETTINGS, initial_rebalance_delay_ms=0))
    assert script.joined(script.join())["generation_id"] == 1


def test_a_new_member_makes_a_stable_group_rebalance() -> None:
    script = Script()
    members = script.stable_group(2)
    newcomer = script.join()
    assert script.waits(newcomer)
    assert script.heartbeat(members[0], 1) == RebalanceInProgress.code
    waiters = [script.join(member_id) for member_id in members]
    assert [script.joined(waiter)["generation_id"] for waiter in (*waiters, newcomer)] == [2, 2, 2]


def test_who_does_not_join_in_time_is_removed() -> None:
    script = Script()
    first, second = script.stable_group(2)
    waiter = script.join(first)
    for _ in range(REBALANCE_MS // 5_000):
        script.move(5_000)
        script.heartbeat(second, 1)
    assert script.joined(waiter)["generation_id"] == 2
    assert script.joined(waiter)["members"] == [{"member_id": first, "group_instance_id": None, "metadata": RANGE[0].metadata}]
    assert script.heartbeat(second, 1) == UnknownMemberId.code


def test_a_leader_that_does_not_join_in_time_loses_its_place() -> None:
    script = Script()
    first, second = script.stable_group(2)
    newcomer, waiter = script.join(), script.join(second)
    for _ in range(REBALANCE_MS // 5_000):
        script.move(5_000)
        script.heartbeat(first, 1)
    assert script.joined(waiter)["leader"] == second
    assert script.joined(newcomer)["leader"] == second


def test_a_follower_that_joins_again_unchanged_gets_the_generation_as_it_is() -> None:
    script = Script()
    _, follower = script.stable_group(2)
    answer = script.joined(script.join(follower))
    assert (answer["generation_id"], answer["members"]) == (1, [])
    assert script.state == "Stable"


def test_a_leader_that_joins_again_makes_the_group_rebalance() -> None:
    script = Script()
    leader, _ = script.stable_group(2)
    assert script.waits(script.join(leader))
    assert script.state == "PreparingRebalance"


def test_a_member_with_new_metadata_makes_the_group_rebalance() -> None:
    script = Script()
    _, follower = script.stable_group(2)
    assert script.waits(script.join(follower, protocols=(Protocol("range", b"changed"),)))
    assert script.state == "PreparingRebalance"


def test_a_member_that_missed_the_answer_is_given_it_again_while_the_group_waits_for_its_leader() -> None:
    script = Script()
    waiters = [script.join(), script.join()]
    script.move(2 * DELAY_MS)
    answers = [script.joined(waiter) for waiter in waiters]
    assert [script.joined(script.join(str(answer["member_id"]))) for answer in answers] == answers


def test_joining_twice_answers_the_first_request_too() -> None:
    script = Script()
    leader, _ = script.stable_group(2)
    first = script.join(leader)
    second = script.join(leader)
    assert script.answers[first]["error_code"] == RebalanceInProgress.code
    assert script.waits(second)


def test_the_protocol_with_most_votes_among_those_that_all_have_wins() -> None:
    script = Script()
    for names in (("a", "b", "c"), ("c", "b"), ("c", "b", "d")):
        script.join(protocols=tuple(Protocol(name, b"") for name in names))
    script.move(2 * DELAY_MS)
    assert {answer["protocol_name"] for answer in script.answers.values()} == {"c"}


def test_a_member_without_a_common_protocol_is_refused() -> None:
    script = Script()
    script.stable_group(1)
    assert script.answers[script.join(protocols=(Protocol("other", b""),))]["error_code"] == InconsistentGroupProtocol.code
    assert script.answers[script.join(protocol_type="connect")]["error_code"] == InconsistentGroupProtocol.code
    assert script.state == "Stable"


def test_an_empty_group_may_change_what_it_does() -> None:
    script = Script()
    (member_id,) = script.stable_group(1)
    script.leave((member_id, None))
    waiter = script.join(protocol_type="connect", protocols=(Protocol("sessioned", b""),))
    script.move(DELAY_MS)
    assert script.joined(waiter)["protocol_type"] == "connect"
    assert script.joined(waiter)["generation_id"] == 3


@pytest.mark.parametrize("timeout_ms", [SETTINGS.min_session_timeout_ms - 1, SETTINGS.max_session_timeout_ms + 1])
def test_a_session_timeout_outside_the_limits_is_refused(timeout_ms: int) -> None:
    script = Script()
    assert script.answers[script.join(session_timeout_ms=timeout_ms)]["error_code"] == InvalidSessionTimeout.code


def test_group_ids_that_cannot_be_are_refused() -> None:
    script = Script()
    assert script.answers[script.join(group_id="")]["error_code"] == InvalidGroupId.code
    assert script.answers[script.join(group_id="g" * 40_000)]["error_code"] == InvalidGroupId.code
    assert script.answers[script.join(instance_id="i" * 40_000)]["error_code"] == InvalidRequest.code


def test_an_unknown_member_cannot_make_a_group() -> None:
    script = Script()
    assert script.answers[script.join("nobody")]["error_code"] == UnknownMemberId.code
    assert script.coordinator.list_groups() == []


def test_a_full_group_takes_no_more_members() -> None:
    script = Script(replace(SETTINGS, max_group_size=2))
    members = script.stable_group(2)
    assert script.answers[script.join()]["error_code"] == GroupMaxSizeReached.code
    script.join(members[0])
    assert script.waits(script.join(members[1])) is False
    assert script.state == "CompletingRebalance"


def test_members_that_came_last_are_turned_away_when_the_limit_was_lowered() -> None:
    script = Script()
    members = script.stable_group(3)
    smaller = Script(replace(SETTINGS, max_group_size=2), records=script.log)
    assert smaller.state == "PreparingRebalance"
    waiters = [smaller.join(member_id) for member_id in members]
    assert [smaller.answers[waiter]["error_code"] for waiter in waiters] == [0, 0, GroupMaxSizeReached.code]


def test_ids_that_were_given_out_are_bounded() -> None:
    script = Script(replace(SETTINGS, max_pending_members=2))
    codes = [script.answers[script.join(requires_known_member_id=True)]["error_code"] for _ in range(3)]
    assert codes == [MemberIdRequired.code, MemberIdRequired.code, GroupMaxSizeReached.code]


def test_groups_are_bounded() -> None:
    script = Script(replace(SETTINGS, max_groups=1))
    script.join()
    assert script.answers[script.join(group_id="another")]["error_code"] == 15
    assert script.commit(1, group_id="another") == 15


def test_a_new_member_that_is_never_answered_is_given_up_in_the_end() -> None:
    script = Script()
    leader, follower = script.stable_group(2)
    newcomer = script.join(rebalance_timeout_ms=3_600_000)
    script.join(leader)
    for _ in range(60):
        script.move(5_000)
        script.heartbeat(follower, 1)
    assert script.answers[newcomer]["error_code"] == UnknownMemberId.code
