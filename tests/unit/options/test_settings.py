import pytest

from millstream.errors import InvalidConfig
from millstream.options.settings import BrokerSettings


def test_stronger_layers_win() -> None:
    settings = BrokerSettings(
        {"log.retention.ms": "1", "message.max.bytes": "1", "max.connections": "1"},
        dynamic_default={"message.max.bytes": "2", "max.connections": "2"},
        dynamic={"max.connections": "3"},
    )
    names = ("log.retention.ms", "message.max.bytes", "max.connections")
    assert [settings.integer(name) for name in names] == [1, 2, 3]


def test_values_come_in_their_types_with_defaults() -> None:
    settings = BrokerSettings({"log.dirs": "a, b"})
    assert settings.integer("num.partitions") == 1
    assert settings.boolean("auto.create.topics.enable") is True
    assert settings.elements("log.dirs") == ("a", "b")
    assert settings.text("broker.rack") is None


def test_a_value_of_another_type_is_a_mistake_of_ours() -> None:
    with pytest.raises(AssertionError, match="not a whole number"):
        BrokerSettings().integer("delete.topic.enable")


def test_settings_are_checked_when_they_are_put_together() -> None:
    with pytest.raises(InvalidConfig):
        BrokerSettings({"num.partitions": "none"})
    with pytest.raises(InvalidConfig):
        BrokerSettings().with_dynamic(dynamic={"max.connections": "-1"}, dynamic_default={})


def test_changing_what_is_dynamic_keeps_what_was_given_at_start() -> None:
    before = BrokerSettings({"max.connections": "1"})
    after = before.with_dynamic(dynamic={"max.connections": "2"}, dynamic_default={})
    assert (before.integer("max.connections"), after.integer("max.connections")) == (1, 2)
    assert after.with_dynamic(dynamic={}, dynamic_default={}).integer("max.connections") == 1
