"""Static members, timeouts, topics that change, and everything else that happens to a KIP-848 group over time."""

import pytest

from millstream.errors import KafkaError, NonEmptyGroup, StaleMemberEpoch, UnknownMemberId, UnsupportedVersion
from millstream.groups.commands import CommitOffsets
from millstream.groups.settings import GroupSettings
from tests.machines.consumer_group_script import (
    FENCED_MEMBER_EPOCH,
    UNKNOWN_MEMBER_ID,
    UNRELEASED_INSTANCE_ID,
    Client,
    Script,
    settle,
    snapshot,
    topic_id,
)

FENCED_INSTANCE_ID = 82


def commit(member_id: str, epoch: int, *, understands_stale_epoch: bool = True) -> CommitOffsets:
    return CommitOffsets(
        group_id="g",
        member_id=member_id,
        generation_or_member_epoch=epoch,
        topics=[],
        understands_stale_epoch=understands_stale_epoch,
    )


# --- static members -----------------------------------------------------------------------------------------------------------------------


def test_static_member_comes_back_to_its_partitions_without_a_rebalance() -> None:
    script = Script(orders=4)
    first, second = Client(script, "m1", "orders", instance_id="i1"), Client(script, "m2", "orders", instance_id="i2")
    settle(first, second)
    had, group_epoch = set(first.owned), script.group.describe_consumer()["group_epoch"]
    assert first.leave(-2)["member_epoch"] == -2
    second.beat()
    assert len(second.owned) == 2
    returned = Client(script, "m3", "orders", instance_id="i1")
    settle(returned, second)
    assert returned.owned == had
    assert script.group.describe_consumer()["group_epoch"] == group_epoch
    assert set(script.described()) == {"m2", "m3"}


def test_static_member_that_does_not_come_back_is_fenced_with_its_session() -> None:
    script = Script(orders=4)
    first, second = Client(script, "m1", "orders", instance_id="i1"), Client(script, "m2", "orders", instance_id="i2")
    settle(first, second)
    first.leave(-2)
    script.advance(44_000)
    second.beat()
    script.advance(1_000)
    settle(second)
    assert len(second.owned) == 4


def test_instance_id_in_use_cannot_be_taken() -> None:
    script = Script(orders=1)
    script.join("m1", "orders", instance_id="i1")
    assert script.join("m2", "orders", instance_id="i1")["error_code"] == UNRELEASED_INSTANCE_ID
    assert script.beat("m1", 1, instance_id="i1")["error_code"] == 0


def test_replaced_static_member_is_fenced() -> None:
    script = Script(orders=1)
    script.join("m1", "orders", instance_id="i1")
    script.beat("m1", -2, instance_id="i1")
    script.join("m2", "orders", instance_id="i1")
    assert script.beat("m1", 1, instance_id="i1")["error_code"] == FENCED_INSTANCE_ID
    assert script.beat("m1", -1, instance_id="i1")["error_code"] == FENCED_INSTANCE_ID
    assert script.beat("m1", 1)["error_code"] == UNKNOWN_MEMBER_ID


def test_static_member_that_is_away_has_no_epoch() -> None:
    script = Script(orders=1)
    script.join("m1", "orders", instance_id="i1")
    script.beat("m1", -2, instance_id="i1")
    assert script.beat("m1", 1, instance_id="i1")["error_code"] == FENCED_MEMBER_EPOCH
    assert script.join("m1", "orders", instance_id="i1")["error_code"] == 0


def test_unknown_instance_cannot_heartbeat_or_leave() -> None:
    script = Script(orders=1)
    script.join("m1", "orders")
    assert script.beat("m1", 1, instance_id="i1")["error_code"] == UNKNOWN_MEMBER_ID
    assert script.beat("m1", -2, instance_id="i1")["error_code"] == UNKNOWN_MEMBER_ID


# --- time ---------------------------------------------------------------------------------------------------------------------------------


def test_silent_member_is_fenced_after_its_session() -> None:
    script = Script(orders=4)
    first, second = Client(script, "m1", "orders"), Client(script, "m2", "orders")
    settle(first, second)
    for _ in range(8):
        script.advance(5_000)
        first.beat()
    assert set(script.described()) == {"m1", "m2"}
    script.advance(5_000)
    assert set(script.described()) == {"m1"}
    assert second.beat()["error_code"] == UNKNOWN_MEMBER_ID
    settle(first)
    assert len(first.owned) == 4


def test_member_that_does_not_revoke_in_time_is_fenced_though_it_is_alive() -> None:
    script = Script(orders=2)
    script.join("m1", "orders", rebalance_timeout_ms=30_000)
    second = Client(script, "m2", "orders")
    second.beat()
    script.beat("m1", 1)  # is told to revoke
    for _ in range(5):
        script.advance(5_000)
        script.beat("m1", 1)
        second.beat()
    assert set(script.described()) == {"m1", "m2"}
    script.advance(5_000)
    assert set(script.described()) == {"m2"}
    assert script.beat("m1", 1)["error_code"] == UNKNOWN_MEMBER_ID
    settle(second)
    assert len(second.owned) == 2


def test_rebalance_timer_stops_when_the_member_has_revoked() -> None:
    script = Script(orders=2)
    first, second = Client(script, "m1", "orders"), Client(script, "m2", "orders")
    settle(first, second)
    for _ in range(20):
        script.advance(5_000)
        first.beat()
        second.beat()
    assert set(script.described()) == {"m1", "m2"}


def test_tick_that_finds_nothing_due_writes_nothing() -> None:
    script = Script(orders=2)
    client = Client(script, "m1", "orders")
    settle(client)
    script.now_ms += 40_000
    client.beat()
    written = len(script.log)
    script.now_ms += 5_001
    assert script.group.tick(script.now_ms).records == []
    assert len(script.log) == written
    assert script.group.next_deadline_ms() == script.now_ms - 5_001 + 30_000


def test_member_that_was_not_heard_from_for_two_thirds_of_its_session_is_named_once(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO", "millstream.groups")
    script = Script(orders=4)
    first, second = Client(script, "m1", "orders"), Client(script, "m2", "orders")
    settle(first, second)
    for _ in range(8):
        script.advance(5_000)
        first.beat()
    silence = [record.getMessage() for record in caplog.records if "heartbeat" in record.getMessage()]
    assert silence == [f"group {script.group.group_id}: m2 did not send a heartbeat for 30.0 s; its session ends in 15.0 s"]
    second.beat()
    script.advance(30_000)
    assert len([record for record in caplog.records if "heartbeat" in record.getMessage()]) == 3


def test_restart_gives_every_member_a_new_session_and_keeps_its_place() -> None:
    script = Script(orders=4)
    first, second = Client(script, "m1", "orders"), Client(script, "m2", "orders")
    settle(first, second)
    script.now_ms += 3_600_000
    before = snapshot(script.group)
    script.restart()
    assert snapshot(script.group) == before
    script.advance(44_999)
    assert first.beat()["error_code"] == 0
    script.advance(1)
    assert set(script.described()) == {"m1"}


def test_restart_in_the_middle_of_a_revocation_still_waits_for_it() -> None:
    script = Script(orders=2)
    first, second = Client(script, "m1", "orders"), Client(script, "m2", "orders")
    first.beat()
    second.beat()
    first.beat()  # was told
    script.restart()
    second.beat()
    assert second.owned == set()
    settle(first, second)
    assert (len(first.owned), len(second.owned)) == (1, 1)


# --- topics -------------------------------------------------------------------------------------------------------------------------------


def test_new_partitions_are_assigned_with_the_next_heartbeats() -> None:
    script = Script(orders=2)
    first, second = Client(script, "m1", "orders"), Client(script, "m2", "orders")
    settle(first, second)
    script.topics(orders=4)
    assert script.group.state == "Assigning"
    settle(first, second)
    assert (len(first.owned), len(second.owned)) == (2, 2)


def test_topic_that_does_not_exist_yet_is_assigned_once_it_does() -> None:
    script = Script(orders=1)
    client = Client(script, "m1", "orders", "later")
    settle(client)
    assert client.owned == {("orders", 0)}
    script.topics(orders=1, later=2)
    settle(client)
    assert client.owned == {("orders", 0), ("later", 0), ("later", 1)}


def test_deleted_topic_is_taken_away() -> None:
    script = Script(orders=1, clicks=1)
    client = Client(script, "m1", "orders", "clicks")
    settle(client)
    script.topics(orders=1)
    settle(client)
    assert client.owned == {("orders", 0)}
    assert set(script.group._state.owners) == {topic_id("orders")}


def test_topics_of_others_do_not_disturb_a_group() -> None:
    script = Script(orders=1)
    settle(Client(script, "m1", "orders"))
    assert script.topics(orders=1, other=7).records == []
    script.restart()
    assert script.topics(orders=1).records == []


def test_topic_that_changed_while_the_broker_was_down_is_noticed() -> None:
    script = Script(orders=1)
    client = Client(script, "m1", "orders")
    settle(client)
    before = script.image
    script.topics(orders=3)
    client.beat()
    script.image = before
    script.restart()
    assert script.group.state == "Assigning"


# --- commits, deletion, description -------------------------------------------------------------------------------------------------------


def test_commits_need_the_members_epoch() -> None:
    script = Script(orders=1)
    script.group.check_commit(commit("", -1), now_ms=0)
    script.join("m1", "orders")
    script.group.check_commit(commit("m1", 1), now_ms=0)
    refused: list[tuple[CommitOffsets, type[KafkaError]]] = [
        (commit("m1", 0), StaleMemberEpoch),
        (commit("m1", 2), StaleMemberEpoch),
        (commit("m2", 1), UnknownMemberId),
        (commit("", -1), UnknownMemberId),
        (commit("m1", 1, understands_stale_epoch=False), UnsupportedVersion),
    ]
    for command, error in refused:
        with pytest.raises(error):
            script.group.check_commit(command, now_ms=0)


def test_fetching_offsets_needs_the_epoch_of_those_who_say_who_they_are() -> None:
    script = Script(orders=1)
    script.join("m1", "orders")
    script.group.check_fetch(None, -1)
    script.group.check_fetch("m1", 1)
    with pytest.raises(StaleMemberEpoch):
        script.group.check_fetch("m1", 2)
    with pytest.raises(UnknownMemberId):
        script.group.check_fetch("m9", 1)


def test_group_can_be_deleted_only_when_empty_and_nothing_is_left_of_it() -> None:
    script = Script(orders=1)
    client = Client(script, "m1", "orders", regex="ord.*")
    settle(client)
    with pytest.raises(NonEmptyGroup):
        script.group.check_deletion()
    client.leave()
    script.group.check_deletion()
    script.log += script.group.tombstones()
    replayed = script.replayed()
    assert replayed.is_gone
    assert (replayed._state.epoch, replayed._state.target_epoch, replayed._state.target, replayed._state.expressions) == (0, 0, {}, {})


def test_description_shows_current_and_target_assignment() -> None:
    script = Script(settings=GroupSettings(consumer_assignors=("range",)), orders=2)
    script.join("m1", "orders", rack_id="r")
    script.join("m2", "orders", instance_id="i")
    description = script.group.describe_consumer()
    assert {name: value for name, value in description.items() if name != "members"} == {
        "group_state": "Reconciling",
        "group_epoch": 2,
        "assignment_epoch": 2,
        "assignor_name": "range",
    }
    assert script.described()["m1"] == {
        "member_id": "m1",
        "instance_id": None,
        "rack_id": "r",
        "member_epoch": 1,
        "client_id": "c",
        "client_host": "/h",
        "subscribed_topic_names": ["orders"],
        "subscribed_topic_regex": "",
        "assignment": {"topic_partitions": [{"topic_id": topic_id("orders"), "topic_name": "orders", "partitions": [0, 1]}]},
        "target_assignment": {"topic_partitions": [{"topic_id": topic_id("orders"), "topic_name": "orders", "partitions": [1]}]},
        "member_type": 1,
    }
