"""Members of a classic group: SyncGroup, Heartbeat, LeaveGroup, sessions, and what a restart brings back."""

from dataclasses import replace

import pytest

from millstream.errors import (
    IllegalGeneration,
    InconsistentGroupProtocol,
    InvalidGroupId,
    NotCoordinator,
    RebalanceInProgress,
    UnknownMemberId,
    UnknownServerError,
)
from millstream.groups.classic.records import GroupMetadata, MemberRecord
from millstream.groups.commands import Heartbeat, LeaveGroup, LeavingMember
from tests.machines.group_script import DELAY_MS, GROUP, RANGE, REBALANCE_MS, SESSION_MS, SETTINGS, Script


def completing_group(script: Script, count: int) -> list[str]:
    """Members that have joined and whose leader has not assigned yet."""
    waiters = [script.join() for _ in range(count)]
    script.move(2 * DELAY_MS)
    return [str(script.joined(waiter)["member_id"]) for waiter in waiters]


def test_the_leaders_sync_gives_everybody_its_assignment_and_is_remembered() -> None:
    script = Script()
    members = completing_group(script, 2)
    answers = script.assign(members, 1)
    assert [answer["assignment"] for answer in answers] == [member_id.encode() for member_id in members]
    assert {answer["protocol_name"] for answer in answers} == {"range"}
    written = [
        MemberRecord(member_id, None, "client", "/127.0.0.1", REBALANCE_MS, SESSION_MS, RANGE[0].metadata, member_id.encode())
        for member_id in members
    ]
    assert script.last_record() == (GROUP, GroupMetadata("consumer", 1, "range", members[0], script.now_ms, tuple(written)))


def test_a_member_that_syncs_late_gets_what_it_was_assigned() -> None:
    script = Script()
    leader, late = completing_group(script, 2)
    script.sync(leader, 1, assignments={leader: b"one", late: b"two"})
    assert script.answers[script.sync(late, 1)]["assignment"] == b"two"


def test_a_member_that_the_leader_forgot_is_assigned_nothing() -> None:
    script = Script()
    leader, forgotten = completing_group(script, 2)
    script.sync(leader, 1, assignments={leader: b"one", "nobody": b"x"})
    assert script.answers[script.sync(forgotten, 1)]["assignment"] == b""


def test_wrong_syncs_are_refused() -> None:
    script = Script()
    leader, follower = completing_group(script, 2)
    assert script.answers[script.sync("nobody", 1)]["error_code"] == UnknownMemberId.code
    assert script.answers[script.sync(follower, 2)]["error_code"] == IllegalGeneration.code
    assert script.answers[script.sync(follower, 1, protocol_name="other")]["error_code"] == InconsistentGroupProtocol.code
    assert script.answers[script.sync(follower, 1, protocol_type="connect")]["error_code"] == InconsistentGroupProtocol.code
    assert script.answers[script.sync(follower, 1, group_id="nothing")]["error_code"] == UnknownMemberId.code
    assert script.answers[script.sync(follower, 1, group_id="")]["error_code"] == InvalidGroupId.code
    script.join()
    assert script.answers[script.sync(leader, 1)]["error_code"] == RebalanceInProgress.code


def test_a_rebalance_sends_those_who_wait_for_their_assignment_back_to_join() -> None:
    script = Script()
    _, follower = completing_group(script, 2)
    waiter = script.sync(follower, 1)
    script.join()
    assert script.answers[waiter]["error_code"] == RebalanceInProgress.code


def test_syncing_twice_answers_the_first_request_too() -> None:
    script = Script()
    _, follower = completing_group(script, 2)
    first, second = script.sync(follower, 1), script.sync(follower, 1)
    assert script.answers[first]["error_code"] == RebalanceInProgress.code
    assert script.waits(second)


def test_who_does_not_sync_in_time_is_removed() -> None:
    script = Script()
    leader, follower = completing_group(script, 2)
    waiter = script.sync(follower, 1)
    for _ in range(REBALANCE_MS // 5_000):
        script.move(5_000)
        script.heartbeat(leader, 1)
    assert script.answers[waiter]["error_code"] == RebalanceInProgress.code
    assert script.heartbeat(leader, 1) == UnknownMemberId.code
    assert script.joined(script.join(follower))["leader"] == follower


def test_metadata_that_fit_into_no_batch_fail_the_sync_and_not_the_shard() -> None:
    script = Script(replace(SETTINGS, max_batch_bytes=1_000))
    leader, follower = completing_group(script, 2)
    waiters = [script.sync(follower, 1), script.sync(leader, 1, assignments={follower: bytes(2_000)})]
    assert [script.answers[waiter]["error_code"] for waiter in waiters] == [UnknownServerError.code] * 2
    assert script.state == "PreparingRebalance"


def test_wrong_heartbeats_are_refused() -> None:
    script = Script()
    (member_id,) = script.stable_group(1)
    assert script.heartbeat(member_id, 1) == 0
    assert script.heartbeat(member_id, 2) == IllegalGeneration.code
    assert script.heartbeat("nobody", 1) == UnknownMemberId.code
    assert script.heartbeat(member_id, 1, "no-instance") == UnknownMemberId.code
    assert script.error(Heartbeat(group_id="", member_id="m", generation_id=1)) == InvalidGroupId.code
    assert script.error(Heartbeat(group_id="nothing", member_id="m", generation_id=1)) == UnknownMemberId.code


def test_a_silent_member_is_removed_after_its_session_timeout_and_the_others_rebalance() -> None:
    script = Script()
    talking, silent = script.stable_group(2)
    script.move(SESSION_MS - 1)
    assert script.heartbeat(talking, 1) == 0
    script.move(1)
    assert script.heartbeat(talking, 1) == RebalanceInProgress.code
    assert script.heartbeat(silent, 1) == UnknownMemberId.code
    assert script.joined(script.join(talking))["generation_id"] == 2


def test_a_member_that_was_not_heard_from_for_two_thirds_of_its_session_is_named_once(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO", "millstream.groups")
    script = Script()
    talking, silent = script.stable_group(2)
    said = f"group {GROUP}: {silent} did not send a heartbeat for 6.7 s; its session ends in 3.3 s"
    for times in (1, 2):
        for _ in range(3):
            script.move(SESSION_MS // 4)
            script.heartbeat(talking, 1)
        assert [record.getMessage() for record in caplog.records if "heartbeat" in record.getMessage()] == [said] * times
        script.heartbeat(silent, 1)


def test_a_member_that_waits_for_us_is_not_called_silent(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO", "millstream.groups")
    script = Script()
    leader, follower = script.stable_group(2)
    script.join(leader)
    for _ in range(4):
        script.heartbeat(follower, 1)
        script.move(SESSION_MS // 4)
    assert [record for record in caplog.records if "heartbeat" in record.getMessage()] == []


def test_a_group_whose_members_are_all_silent_becomes_empty_and_is_remembered_as_such() -> None:
    script = Script()
    script.stable_group(2)
    script.move(SESSION_MS)
    assert script.state == "Empty"
    assert script.last_record() == (GROUP, GroupMetadata("consumer", 2, None, None, script.now_ms, ()))


def test_a_member_that_waits_for_us_does_not_have_to_talk() -> None:
    script = Script()
    leader, follower = script.stable_group(2)
    waiter = script.join(leader)
    for _ in range(REBALANCE_MS // 5_000 - 1):
        script.move(5_000)
        script.heartbeat(follower, 1)
    assert script.waits(waiter)
    script.join(follower)
    assert script.joined(waiter)["generation_id"] == 2


def test_after_a_rebalance_sessions_count_again() -> None:
    script = Script()
    leader, follower = script.stable_group(2)
    script.join(leader)
    script.move(SESSION_MS - 1)
    script.join(follower)
    script.move(SESSION_MS - 1)
    assert script.heartbeat(leader, 2) == 0
    script.move(1)
    assert script.heartbeat(follower, 2) == UnknownMemberId.code


def test_a_member_that_leaves_makes_the_others_rebalance_at_once() -> None:
    script = Script()
    first, second, third = script.stable_group(3)
    assert script.leave((third, None)) == [0]
    assert script.heartbeat(first, 1) == RebalanceInProgress.code
    waiters = [script.join(first), script.join(second)]
    assert [script.joined(waiter)["generation_id"] for waiter in waiters] == [2, 2]


def test_several_members_leave_with_one_rebalance_and_an_error_each() -> None:
    script = Script()
    first, second, third = script.stable_group(3)
    assert script.leave((second, None), ("nobody", None), (third, None), ("", None)) == [0, UnknownMemberId.code, 0, UnknownMemberId.code]
    assert script.joined(script.join(first))["generation_id"] == 2


def test_the_last_member_that_leaves_leaves_an_empty_group() -> None:
    script = Script()
    script.leave(*((member_id, None) for member_id in script.stable_group(2)))
    assert script.state == "Empty"


def test_a_member_that_leaves_while_it_waits_is_answered() -> None:
    script = Script()
    leader, follower = script.stable_group(2)
    waiter = script.join(leader)
    script.leave((leader, None))
    assert script.answers[waiter]["error_code"] == UnknownMemberId.code
    script.join(follower)
    waiter = script.sync(follower, 2)
    script.leave((follower, None))
    assert script.state == "Empty"
    assert not script.waits(waiter)


def test_a_pending_member_can_leave() -> None:
    script = Script()
    (member_id,) = script.stable_group(1)
    pending = str(script.answers[script.join(requires_known_member_id=True)]["member_id"])
    waiter = script.join(member_id)
    assert script.waits(waiter)
    assert script.leave((pending, None)) == [0]
    assert script.joined(waiter)["generation_id"] == 2


def test_leaving_no_group_is_refused_member_by_member() -> None:
    script = Script()
    answer = script.answer(LeaveGroup(group_id="nothing", members=(LeavingMember("m"),)))
    assert answer["members"] == [{"member_id": "m", "group_instance_id": None, "error_code": UnknownMemberId.code}]
    assert script.error(LeaveGroup(group_id="", members=(LeavingMember("m"),))) == InvalidGroupId.code


def test_a_restart_brings_members_and_assignments_back_with_a_whole_session_each() -> None:
    script = Script()
    members = script.stable_group(2)
    script.move(SESSION_MS - 1)
    again = script.restarted()
    assert again.coordinator.describe(GROUP) == script.coordinator.describe(GROUP)
    assert [again.heartbeat(member_id, 1) for member_id in members] == [0, 0]
    assert again.answers[again.sync(members[1], 1)]["assignment"] == members[1].encode()


def test_a_rebalance_under_way_is_forgotten_by_a_restart() -> None:
    script = Script()
    first, _ = script.stable_group(2)
    script.join()
    again = script.restarted()
    assert again.state == "Stable"
    assert again.heartbeat(first, 1) == 0


def test_an_unloaded_shard_sends_everybody_who_waits_elsewhere() -> None:
    script = Script()
    leader, follower = script.stable_group(2)
    joining = script.join(leader)
    script.join(follower)
    syncing, newcomer = script.sync(follower, 2), script.join(group_id="another")
    script.joined(joining)
    script.take(script.coordinator.unloaded())
    assert script.answers[syncing]["error_code"] == NotCoordinator.code
    assert script.answers[newcomer]["error_code"] == NotCoordinator.code


def test_groups_are_described_and_listed() -> None:
    script = Script()
    (member_id,) = script.stable_group(1)
    script.commit(1, group_id="simple")
    described = script.coordinator.describe(GROUP)
    assert (described["group_state"], described["protocol_type"], described["protocol_data"]) == ("Stable", "consumer", "range")
    member = {"member_id": member_id, "group_instance_id": None, "client_id": "client", "client_host": "/127.0.0.1"}
    assert described["members"] == [{**member, "member_metadata": RANGE[0].metadata, "member_assignment": member_id.encode()}]
    assert script.coordinator.describe("nothing")["group_state"] == "Dead"
    assert [group["group_id"] for group in script.coordinator.list_groups()] == [GROUP, "simple"]
    assert [group["group_id"] for group in script.coordinator.list_groups(["STABLE"])] == [GROUP]
    assert [group["group_id"] for group in script.coordinator.list_groups(["empty"], ["Classic"])] == ["simple"]
    assert script.coordinator.list_groups((), ["consumer"]) == []
