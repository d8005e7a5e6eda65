"""Static members of groups that migrate: an instance that is started again with the other protocol takes its own place."""

from typing import cast

import pytest

from millstream.coordinator_shard import Fields
from tests.machines.consumer_group_script import Client, topic_id
from tests.machines.migration_script import ClassicClient, MigrationScript, settle
from tests.machines.test_group_migration import (
    FENCED_INSTANCE_ID,
    FIRST,
    OK,
    REBALANCE_IN_PROGRESS,
    SECOND,
    UNKNOWN_MEMBER_ID,
    UNRELEASED_INSTANCE_ID,
    assigned,
    join_new,
)


def test_static_member_comes_back_with_the_new_protocol_and_keeps_its_place() -> None:
    script = MigrationScript()
    script.classic_group(FIRST, SECOND, instance_ids=True)
    answer = join_new(script, instance_id="i1")
    assert answer["error_code"] == OK
    assert sorted(script.member_types().values(), key=str) == [0, 1]
    held = cast("dict[str, list[Fields]]", answer["assignment"])["topic_partitions"]
    assert held == [{"topic_id": topic_id("t"), "partitions": [2, 3]}]
    assert join_new(script, "second", instance_id="i1")["error_code"] == UNRELEASED_INSTANCE_ID


@pytest.mark.parametrize("why", ["left", "joined", "has grown"])
def test_static_member_that_changes_its_protocol_leaves_nothing_unread(why: str) -> None:
    """It asks for what it had before, but what the leader assigned last does not fit the group any more."""
    script = MigrationScript()
    clients: list[Client | ClassicClient] = [ClassicClient(script, "t", instance_id=name) for name in ("i0", "i1")]
    settle(clients, script)
    if why == "left":
        script.leave(clients.pop().member_id, "i1")
    elif why == "joined":
        clients.append(ClassicClient(script, "t"))
        cast("ClassicClient", clients[-1]).step()
    else:
        script.change_topics({"t": 6})
    clients[0] = Client(script, "new", "t", instance_id="i0")
    settle(clients, script)
    assert script.kind[0] == "consumer"
    assert all(client.owned for client in clients)


def test_last_static_member_that_comes_back_as_a_classic_one_takes_the_group_along() -> None:
    script = MigrationScript()
    one, _ = script.classic_group(FIRST, SECOND, instance_ids=True)
    join_new(script, instance_id="i1")
    generation = cast("int", script.answers[script.join(one, instance_id="i0")]["generation_id"])
    script.sync(one, generation, instance_id="i0")
    script.beat("new", -2, instance_id="i1")
    joined = script.answers[script.join(instance_id="i1")]
    assert script.kind == ("classic", "Stable"), "everybody keeps what it has: nothing to rebalance"
    assert (joined["error_code"], joined["generation_id"], joined["leader"]) == (OK, generation, "")
    synced = script.answers[script.sync(str(joined["member_id"]), generation, instance_id="i1")]
    assert assigned(synced).partitions == (("t", (2, 3)),)
    assert script.heartbeat(one, generation, "i0") == OK
    script.restart()
    assert script.kind == ("classic", "Stable")


def test_static_member_with_another_subscription_takes_the_group_along_into_a_rebalance() -> None:
    script = MigrationScript(topics={"t": 4, "u": 1})
    script.classic_group(FIRST, SECOND, instance_ids=True)
    join_new(script, instance_id="i1")
    joined = script.answers[script.join(instance_id="i1", topics=("t", "u"))]
    assert joined["error_code"] == OK
    assert script.kind == ("classic", "PreparingRebalance")


def test_static_member_that_was_replaced_is_fenced() -> None:
    script = MigrationScript()
    join_new(script)
    first = str(script.answers[script.join(instance_id="i")]["member_id"])
    second = str(script.answers[script.join(instance_id="i")]["member_id"])
    assert script.heartbeat(first, 2, "i") == FENCED_INSTANCE_ID
    assert script.answers[script.join(first, instance_id="i")]["error_code"] == FENCED_INSTANCE_ID
    assert script.answers[script.sync(first, 2, instance_id="i")]["error_code"] == FENCED_INSTANCE_ID
    assert script.heartbeat(second, 2, "i") in (OK, REBALANCE_IN_PROGRESS)
    assert script.heartbeat(second, 2, "other") == UNKNOWN_MEMBER_ID
