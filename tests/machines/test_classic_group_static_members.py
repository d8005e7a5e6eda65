"""Static members of a classic group (KIP-345): a consumer with a `group.instance.id` may be restarted without a rebalance."""

from dataclasses import replace

from millstream.errors import FencedInstanceId, InconsistentGroupProtocol, UnknownMemberId
from millstream.groups.commands import Protocol
from tests.machines.group_script import DELAY_MS, GROUP, REBALANCE_MS, SESSION_MS, SETTINGS, Script


def test_a_static_member_needs_no_handshake() -> None:
    script = Script()
    waiter = script.join(instance_id="one", requires_known_member_id=True)
    script.move(DELAY_MS)
    assert str(script.joined(waiter)["member_id"]).startswith("one-")


def test_a_restarted_follower_takes_its_place_again_without_a_rebalance() -> None:
    script = Script()
    leader, former = script.stable_group(2, instance_ids=True)
    answer = script.joined(script.join(instance_id="instance-1"))
    assert (answer["generation_id"], answer["leader"], answer["skip_assignment"]) == (1, leader, False)
    assert answer["member_id"] != former
    assert script.state == "Stable"
    assert script.answers[script.sync(str(answer["member_id"]), 1)]["assignment"] == former.encode()
    assert script.restarted().coordinator.describe(GROUP) == script.coordinator.describe(GROUP)


def test_a_restarted_leader_has_nothing_to_assign() -> None:
    script = Script()
    script.stable_group(2, instance_ids=True)
    answer = script.joined(script.join(instance_id="instance-0"))
    assert answer["skip_assignment"] is True
    assert answer["leader"] == answer["member_id"]
    assert len(answer["members"]) == 2  # type: ignore[arg-type]


def test_a_restarted_leader_that_cannot_skip_the_assignment_is_made_to_believe_in_the_former_one() -> None:
    script = Script()
    former, _ = script.stable_group(2, instance_ids=True)
    answer = script.joined(script.join(instance_id="instance-0", supports_skipping_assignment=False))
    assert (answer["leader"], answer["members"], answer["skip_assignment"]) == (former, [], False)
    assert script.answers[script.sync(str(answer["member_id"]), 1)]["assignment"] == former.encode()


def test_the_former_self_of_a_restarted_member_is_fenced_everywhere() -> None:
    script = Script()
    _, former = script.stable_group(2, instance_ids=True)
    script.join(instance_id="instance-1")
    assert script.heartbeat(former, 1, "instance-1") == FencedInstanceId.code
    assert script.answers[script.sync(former, 1, instance_id="instance-1")]["error_code"] == FencedInstanceId.code
    assert script.answers[script.join(former, instance_id="instance-1")]["error_code"] == FencedInstanceId.code
    assert script.leave((former, "instance-1")) == [FencedInstanceId.code]
    assert script.commit(1, former, 1, instance_id="instance-1") == FencedInstanceId.code
    assert script.heartbeat(former, 1) == UnknownMemberId.code


def test_requests_of_the_former_self_that_wait_are_fenced() -> None:
    script = Script()
    leader, former = script.stable_group(2, instance_ids=True)
    joining = script.join(leader, instance_id="instance-0")
    script.join(instance_id="instance-0")
    assert script.answers[joining]["error_code"] == FencedInstanceId.code
    script.join(former, instance_id="instance-1")
    syncing = script.sync(former, 2, instance_id="instance-1")
    assert script.waits(syncing)
    script.join(instance_id="instance-1")
    assert script.answers[syncing]["error_code"] == FencedInstanceId.code


def test_a_member_restarted_while_the_leader_assigns_makes_the_group_rebalance() -> None:
    script = Script()
    waiters = [script.join(instance_id="one"), script.join(instance_id="two")]
    script.move(2 * DELAY_MS)
    script.joined(waiters[0])
    assert script.waits(script.join(instance_id="two"))
    assert script.state == "PreparingRebalance"


def test_a_member_restarted_with_another_favourite_protocol_makes_the_group_rebalance() -> None:
    script = Script()
    protocols = (Protocol("a", b""), Protocol("b", b""))
    script.stable_group(1, instance_ids=True, protocols=protocols)
    waiter = script.join(instance_id="instance-0", protocols=protocols[::-1])
    assert script.joined(waiter)["generation_id"] == 2
    assert script.joined(waiter)["protocol_name"] == "b"


def test_a_member_restarted_without_a_common_protocol_is_refused() -> None:
    script = Script()
    script.stable_group(2, instance_ids=True)
    waiter = script.join(instance_id="instance-1", protocols=(Protocol("other", b""),))
    assert script.answers[waiter]["error_code"] == InconsistentGroupProtocol.code
    assert script.state == "Stable"


def test_a_static_member_survives_a_rebalance_it_does_not_join() -> None:
    script = Script()
    leader, absent = script.stable_group(2, instance_ids=True)
    waiter = script.join(leader, instance_id="instance-0")
    for _ in range(REBALANCE_MS // 5_000):
        script.move(5_000)
        script.heartbeat(absent, 1, "instance-1")
    assert script.joined(waiter)["generation_id"] == 2
    assert len(script.joined(waiter)["members"]) == 2  # type: ignore[arg-type]
    script.move(SESSION_MS)
    assert script.heartbeat(absent, 2, "instance-1") == UnknownMemberId.code


def test_a_rebalance_that_only_absent_static_members_could_join_waits_for_their_sessions() -> None:
    script = Script()
    leader, absent = script.stable_group(2, instance_ids=True)
    newcomer = script.join()
    newcomer_id = next(
        str(member["member_id"])
        for member in script.coordinator.describe(GROUP)["members"]  # type: ignore[attr-defined]
        if member["group_instance_id"] is None
    )
    script.leave((newcomer_id, None))
    assert script.answers[newcomer]["error_code"] == UnknownMemberId.code
    for _ in range(2 * REBALANCE_MS // 5_000):
        script.move(5_000)
        assert script.state == "PreparingRebalance"
        script.heartbeat(leader, 1, "instance-0")
        script.heartbeat(absent, 1, "instance-1")
    script.move(SESSION_MS)
    assert script.state == "Empty"


def test_an_operator_removes_a_static_member_by_its_instance_id() -> None:
    script = Script()
    leader, _ = script.stable_group(2, instance_ids=True)
    assert script.leave(("", "instance-1"), ("", "nobody")) == [0, UnknownMemberId.code]
    assert script.joined(script.join(leader, instance_id="instance-0"))["generation_id"] == 2


def test_a_rebalance_timeout_of_nothing_does_not_spin() -> None:
    script = Script(replace(SETTINGS, initial_rebalance_delay_ms=0))
    script.join(instance_id="one", rebalance_timeout_ms=0)
    script.join(instance_id="two", rebalance_timeout_ms=0)
    script.move(2 * SESSION_MS)
    assert script.state == "Empty"
