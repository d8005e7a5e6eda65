import pytest

from millstream.errors import InvalidRequest
from millstream.groups.commands import ConsumerHeartbeat
from millstream.groups.consumer.heartbeat_check import available_assignors, check_consumer_heartbeat
from millstream.groups.settings import GroupSettings


def heartbeat(**fields: object) -> ConsumerHeartbeat:
    values: dict[str, object] = {"group_id": "g", "member_id": "m", "member_epoch": 5, "client_id": "c", "client_host": "/h", **fields}
    return ConsumerHeartbeat(**values)  # type: ignore[arg-type]


def test_short_heartbeat_is_fine() -> None:
    check_consumer_heartbeat(heartbeat(), GroupSettings())


@pytest.mark.parametrize("field", ["group_id", "member_id", "instance_id", "rack_id"])
@pytest.mark.parametrize("value", ["", " ", "x" * 32_768, "\u20ac" * 11_000])
def test_names_must_not_be_empty_or_longer_than_a_key_can_hold(field: str, value: str) -> None:
    with pytest.raises(InvalidRequest):
        check_consumer_heartbeat(heartbeat(**{field: value}), GroupSettings())


def test_giant_subscription_is_refused() -> None:
    many = tuple(f"{number:0249}" for number in range(10_000))
    with pytest.raises(InvalidRequest, match="10000 topics"):
        check_consumer_heartbeat(heartbeat(subscribed_topic_names=many), GroupSettings())
    check_consumer_heartbeat(heartbeat(subscribed_topic_names=many[:3_000]), GroupSettings())


def test_assignors_that_are_not_ours_are_passed_over() -> None:
    assert available_assignors(GroupSettings(consumer_assignors=("org.example.Mine", "range"))) == ("range",)
    assert available_assignors(GroupSettings(consumer_assignors=("org.example.Mine",))) == ("uniform", "range")
