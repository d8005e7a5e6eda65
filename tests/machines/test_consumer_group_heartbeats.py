"""What a heartbeat of the KIP-848 protocol is answered with: joining, leaving, epochs, and everything that is refused."""

import pytest

from millstream.groups.consumer.records import ConsumerRecordType
from millstream.groups.settings import GroupSettings
from tests.machines.consumer_group_script import (
    FENCED_MEMBER_EPOCH,
    UNKNOWN_MEMBER_ID,
    Client,
    Script,
    as_partitions,
    settle,
    snapshot,
    topic_id,
)

INVALID_REQUEST = 42
GROUP_MAX_SIZE_REACHED = 81
UNSUPPORTED_ASSIGNOR = 112


def test_first_member_gets_all_partitions_with_its_first_answer() -> None:
    script = Script(orders=3)
    reply = script.join("m1", "orders")
    assert reply == {
        "error_code": 0,
        "error_message": None,
        "member_id": "m1",
        "member_epoch": 1,
        "heartbeat_interval_ms": 5_000,
        "assignment": {"topic_partitions": [{"topic_id": topic_id("orders"), "partitions": [0, 1, 2]}]},
    }
    assert script.group.state == "Stable"


def test_join_writes_kafkas_records_in_kafkas_order() -> None:
    script = Script(orders=1)
    script.join("m1", "orders")
    assert [(key.record_type, key.name) for key, _ in script.decoded()] == [
        (ConsumerRecordType.MEMBER_METADATA, "m1"),
        (ConsumerRecordType.GROUP_METADATA, ""),
        (ConsumerRecordType.TARGET_ASSIGNMENT_MEMBER, "m1"),
        (ConsumerRecordType.TARGET_ASSIGNMENT, ""),
        (ConsumerRecordType.CURRENT_ASSIGNMENT, "m1"),
    ]


def test_heartbeat_with_nothing_new_writes_nothing_and_repeats_no_assignment() -> None:
    script = Script(orders=3)
    script.join("m1", "orders")
    written = len(script.log)
    reply = script.beat("m1", 1)
    assert (reply["member_epoch"], reply["assignment"]) == (1, None)
    assert len(script.log) == written


def test_full_heartbeat_gets_its_assignment_again() -> None:
    script = Script(orders=2)
    script.join("m1", "orders")
    owned = ((topic_id("orders"), (0, 1)),)
    reply = script.beat("m1", 1, rebalance_timeout_ms=60_000, subscribed_topic_names=("orders",), topic_partitions=owned)
    assert as_partitions(reply, script.image) == {("orders", 0), ("orders", 1)}


def test_second_member_waits_until_the_first_has_given_up() -> None:
    script = Script(orders=4)
    first, second = Client(script, "m1", "orders"), Client(script, "m2", "orders")
    first.beat()
    second.beat()
    assert (second.epoch, second.owned) == (2, set())
    assert script.group.state == "Reconciling"
    first.beat()  # is told to give up two
    assert len(first.owned) == 2
    second.beat()
    assert second.owned == set()
    first.beat()  # says that it did
    assert first.epoch == 2
    second.beat()
    assert len(second.owned) == 2
    assert first.owned.isdisjoint(second.owned)
    assert script.group.state == "Stable"


def test_member_that_reports_nothing_has_given_up_nothing() -> None:
    script = Script(orders=2)
    script.join("m1", "orders")
    script.join("m2", "orders")
    script.beat("m1", 1)
    script.beat("m1", 1)
    assert script.beat("m2", 2)["assignment"] is None
    assert script.beat("m1", 1)["member_epoch"] == 1


def test_leaving_member_frees_its_partitions() -> None:
    script = Script(orders=4)
    first, second = Client(script, "m1", "orders"), Client(script, "m2", "orders")
    settle(first, second)
    reply = second.leave()
    assert (reply["error_code"], reply["member_id"], reply["member_epoch"]) == (0, "m2", -1)
    settle(first)
    assert len(first.owned) == 4
    first.leave()
    assert (script.group.state, script.group.is_empty) == ("Empty", True)


def test_coordinator_names_a_member_only_in_version_0() -> None:
    script = Script(orders=1)
    assert script.join("", "orders")["error_code"] == INVALID_REQUEST
    assert script.join("", "orders", requires_member_id=False)["member_id"] == "made-up"


def test_lost_answer_is_made_good_by_the_previous_epoch() -> None:
    script = Script(orders=2)
    client = Client(script, "m1", "orders")
    client.beat()
    script.topics(orders=3)
    client.beat(loses_answer=True)
    assert client.epoch == 1
    assert script.beat("m1", 1)["error_code"] == FENCED_MEMBER_EPOCH  # nobody knows what it has
    assert client.beat()["error_code"] == 0  # says what it has, as clients do after a lost answer
    assert (client.epoch, len(client.owned)) == (2, 3)


def test_previous_epoch_with_partitions_of_others_is_fenced() -> None:
    script = Script(orders=2)
    client = Client(script, "m1", "orders")
    client.beat()
    script.topics(orders=3, clicks=1)
    client.beat(loses_answer=True)
    client._assigned.add(("clicks", 0))
    assert client.beat()["error_code"] == FENCED_MEMBER_EPOCH


@pytest.mark.parametrize("epoch", [2, 7])
def test_epoch_from_the_future_is_fenced(epoch: int) -> None:
    script = Script(orders=1)
    script.join("m1", "orders")
    assert script.beat("m1", epoch)["error_code"] == FENCED_MEMBER_EPOCH


def test_old_epoch_is_fenced() -> None:
    script = Script(orders=1)
    client = Client(script, "m1", "orders")
    for count in (1, 2, 3):
        script.topics(orders=count)
        client.beat()
        client.beat()
    assert client.epoch == 3
    assert script.beat("m1", 1, topic_partitions=())["error_code"] == FENCED_MEMBER_EPOCH


def test_member_may_join_again_with_the_same_id() -> None:
    script = Script(orders=2)
    client = Client(script, "m1", "orders")
    client.beat()
    script.topics(orders=4)
    client.beat()
    reply = script.join("m1", "orders")
    assert (reply["error_code"], reply["member_epoch"], len(as_partitions(reply, script.image))) == (0, client.epoch, 4)


def test_unknown_members_are_refused() -> None:
    script = Script(orders=1)
    script.join("m1", "orders")
    assert script.beat("m2", 1)["error_code"] == UNKNOWN_MEMBER_ID
    assert script.beat("m2", -1)["error_code"] == UNKNOWN_MEMBER_ID


def test_full_group_takes_no_new_member_and_keeps_its_own() -> None:
    script = Script(settings=GroupSettings(consumer_max_group_size=1), orders=1)
    script.join("m1", "orders")
    assert script.join("m2", "orders")["error_code"] == GROUP_MAX_SIZE_REACHED
    assert script.beat("m1", 1)["error_code"] == 0
    assert script.join("m1", "orders")["error_code"] == 0


@pytest.mark.parametrize(
    ("epoch", "fields"),
    [
        (0, {"subscribed_topic_names": ("orders",), "rebalance_timeout_ms": -1}),
        (0, {"subscribed_topic_names": ("orders",), "topic_partitions": None}),
        (0, {"subscribed_topic_names": ("orders",), "topic_partitions": ((topic_id("orders"), (0,)),)}),
        (0, {}),
        (0, {"subscribed_topic_names": ("orders",), "instance_id": ""}),
        (0, {"subscribed_topic_names": ("orders",), "rack_id": " "}),
        (-2, {}),
        (-3, {}),
    ],
)
def test_request_that_makes_no_sense_is_invalid_and_leaves_no_trace(epoch: int, fields: dict[str, object]) -> None:
    script = Script(orders=1)
    before = snapshot(script.group)
    assert script.beat("m1", epoch, **fields)["error_code"] == INVALID_REQUEST
    assert script.log == []
    assert snapshot(script.group) == before


def test_unknown_assignor_is_refused_with_the_ones_there_are() -> None:
    script = Script(orders=1)
    reply = script.join("m1", "orders", server_assignor="sticky")
    assert reply["error_code"] == UNSUPPORTED_ASSIGNOR
    assert "uniform, range" in str(reply["error_message"])
    assert script.group.is_empty


def test_assignor_is_what_most_members_ask_for() -> None:
    script = Script(orders=4)
    script.join("m1", "orders")
    assert script.group.describe_consumer()["assignor_name"] == "uniform"
    script.join("m2", "orders", server_assignor="range")
    assert script.group.describe_consumer()["assignor_name"] == "range"


def test_member_that_unsubscribes_gives_up_at_once() -> None:
    script = Script(orders=2, clicks=2)
    client = Client(script, "m1", "orders", "clicks")
    settle(client)
    client.subscribe("orders")
    client.beat()
    assert client.owned == {("orders", 0), ("orders", 1)}
    settle(client)
    assert script.group.is_subscribed_to("orders")
    assert not script.group.is_subscribed_to("clicks")
