"""Members that subscribe with an expression (ConsumerGroupHeartbeat v1)."""

import pytest

from millstream.groups.consumer.records import ConsumerRecordType, RegularExpression
from tests.machines.consumer_group_script import Client, Script, settle, snapshot

INVALID_REGULAR_EXPRESSION = 128


def test_member_gets_the_topics_that_match_as_a_whole() -> None:
    script = Script(orders=1, orders_eu=1, old_orders=1)
    client = Client(script, "m1", regex="orders.*")
    client.beat()
    assert client.owned == {("orders", 0), ("orders_eu", 0)}


def test_new_topics_that_match_are_assigned_and_deleted_ones_forgotten() -> None:
    script = Script(orders=1)
    client = Client(script, "m1", regex="o.*")
    settle(client)
    script.topics(orders=1, clicks=1, others=1)
    settle(client)
    assert client.owned == {("orders", 0), ("others", 0)}
    script.topics(clicks=1, others=1)
    settle(client)
    assert client.owned == {("others", 0)}


def test_names_and_expression_add_up() -> None:
    script = Script(orders=1, clicks=1, views=1)
    client = Client(script, "m1", "views", regex="o.*")
    settle(client)
    assert client.owned == {("orders", 0), ("views", 0)}


@pytest.mark.parametrize("expression", [r"(a)\1", "(?=a)b", "(?<!a)b", "(", "a{2000}", "[z-a]", "*"])
def test_what_re2_refuses_is_an_invalid_regular_expression(expression: str) -> None:
    script = Script(orders=1)
    before = snapshot(script.group)
    reply = script.beat("m1", 0, subscribed_topic_regex=expression)
    assert reply["error_code"] == INVALID_REGULAR_EXPRESSION
    assert (script.log, snapshot(script.group)) == ([], before)


def test_member_that_changes_to_a_bad_expression_keeps_the_old_one() -> None:
    script = Script(orders=1)
    client = Client(script, "m1", regex="o.*")
    settle(client)
    before = snapshot(script.group)
    assert script.beat("m1", client.epoch, subscribed_topic_regex="(")["error_code"] == INVALID_REGULAR_EXPRESSION
    assert snapshot(script.group) == before


def test_expression_is_recorded_once_for_all_and_deleted_with_its_last_member() -> None:
    script = Script(orders=2)
    first, second = Client(script, "m1", regex="o.*"), Client(script, "m2", regex="o.*")
    settle(first, second)
    first.leave()
    second.leave()
    values = [value for key, value in script.decoded() if key == (ConsumerRecordType.REGULAR_EXPRESSION, "g", "o.*")]
    assert values == [RegularExpression(("orders",), 0, script.now_ms), None]


def test_changed_expression_takes_effect_and_the_old_one_is_forgotten() -> None:
    script = Script(orders=1, clicks=1)
    client = Client(script, "m1", regex="o.*")
    settle(client)
    client.regex = "c.*"
    client.subscribe()
    settle(client)
    assert client.owned == {("clicks", 0)}
    assert set(script.group._state.expressions) == {"c.*"}
    client.regex = ""
    client.subscribe("orders")
    settle(client)
    assert client.owned == {("orders", 0)}
    assert script.group._state.expressions == {}


def test_expression_survives_a_restart_and_is_matched_against_what_changed_meanwhile() -> None:
    script = Script(orders=1)
    client = Client(script, "m1", regex="o.*")
    settle(client)
    before = snapshot(script.group)
    script.restart()
    assert snapshot(script.group) == before
    script.topics(orders=1, others=1)
    settle(client)
    assert client.owned == {("orders", 0), ("others", 0)}


def test_hostile_expression_is_matched_in_slices_and_the_group_goes_on() -> None:
    names = {f"{'ab' * 100}{number}": 1 for number in range(200)}
    script = Script()
    script.topics(orders=1, **names)
    other, client = Client(script, "m1", "orders"), Client(script, "m2", regex="(a|b)*a(a|b){300}|orders")
    other.beat()
    client.beat()
    assert client.owned == set()  # not done yet
    assert other.beat()["error_code"] == 0
    due_ms = script.group.next_deadline_ms()
    assert due_ms is not None
    assert due_ms <= script.now_ms + 10
    for _ in range(40):
        script.advance(1_000)
        other.beat()
        client.beat()
    assert script.group._state.expressions["(a|b)*a(a|b){300}|orders"].topics == ("orders",)
