from millstream.options.broker import BROKER_OPTIONS
from millstream.options.description import DescribedOption, describe_broker, describe_topic
from millstream.options.option import OptionType
from millstream.options.settings import BrokerSettings, ConfigSource
from millstream.options.topic import TOPIC_OPTIONS

NOTHING_SET = BrokerSettings()


def topic_row(name: str, overrides: dict[str, str], broker: BrokerSettings = NOTHING_SET) -> DescribedOption:
    (row,) = describe_topic(overrides, broker, names=[name])
    return row


def test_all_options_but_the_internal_ones_are_listed() -> None:
    unlisted = {"internal.segment.bytes", "mirror.source"}
    assert [row.name for row in describe_topic({}, NOTHING_SET)] == [name for name in TOPIC_OPTIONS if name not in unlisted]
    assert [row.name for row in describe_broker(NOTHING_SET)] == list(BROKER_OPTIONS)


def test_an_empty_list_of_names_means_all_and_unknown_names_are_left_out() -> None:
    assert describe_topic({}, NOTHING_SET, names=[]) == describe_topic({}, NOTHING_SET)
    assert [row.name for row in describe_topic({}, NOTHING_SET, names=["no.such.option", "retention.ms"])] == ["retention.ms"]


def test_an_option_that_is_not_set_comes_from_the_default_of_its_broker_option() -> None:
    row = topic_row("segment.bytes", {})
    assert (row.value, row.source) == ("1073741824", ConfigSource.DEFAULT)
    assert row.synonyms == (("log.segment.bytes", "1073741824", ConfigSource.DEFAULT),)


def test_an_option_set_on_the_topic_shows_what_lies_beneath() -> None:
    row = topic_row("cleanup.policy", {"cleanup.policy": "compact"})
    assert (row.value, row.source) == ("compact", ConfigSource.DYNAMIC_TOPIC)
    assert row.synonyms == (
        ("cleanup.policy", "compact", ConfigSource.DYNAMIC_TOPIC),
        ("log.cleanup.policy", "delete", ConfigSource.DEFAULT),
    )


def test_a_setting_of_the_broker_in_another_unit_holds_but_is_not_listed_alone() -> None:
    row = topic_row("retention.ms", {}, BrokerSettings({"log.retention.hours": "24"}))
    assert (row.value, row.source, row.synonyms) == ("86400000", ConfigSource.DEFAULT, ())
    row = topic_row("retention.ms", {}, BrokerSettings({"log.retention.ms": "5000", "log.retention.hours": "24"}))
    assert row.synonyms == (
        ("log.retention.ms", "5000", ConfigSource.STATIC_BROKER),
        ("log.retention.hours", "24", ConfigSource.STATIC_BROKER),
        ("log.retention.hours", "168", ConfigSource.DEFAULT),
    )


def test_layers_of_the_broker_are_shown_strongest_first() -> None:
    broker = BrokerSettings({"message.max.bytes": "1"}, dynamic_default={"message.max.bytes": "2"}, dynamic={"message.max.bytes": "3"})
    row = topic_row("max.message.bytes", {}, broker)
    assert row.value == "3"
    assert [synonym.source for synonym in row.synonyms] == [
        ConfigSource.DYNAMIC_BROKER,
        ConfigSource.DYNAMIC_DEFAULT_BROKER,
        ConfigSource.STATIC_BROKER,
        ConfigSource.DEFAULT,
    ]


def test_options_without_a_broker_option_have_no_synonyms() -> None:
    assert topic_row("remote.storage.enable", {}).synonyms == ()


def test_a_brokers_own_value_is_its_own_and_not_a_siblings() -> None:
    rows = {row.name: row for row in describe_broker(BrokerSettings({"log.retention.hours": "24", "num.partitions": "3"}))}
    assert (rows["num.partitions"].value, rows["num.partitions"].source) == ("3", ConfigSource.STATIC_BROKER)
    assert rows["log.retention.ms"].value is None
    assert rows["log.retention.hours"].value == "24"


def test_what_cannot_change_while_the_broker_runs_is_read_only() -> None:
    rows = {row.name: row.is_read_only for row in describe_broker(NOTHING_SET)}
    assert (rows["num.partitions"], rows["message.max.bytes"], rows["group.max.size"]) == (True, False, True)
    assert not topic_row("retention.ms", {}).is_read_only


def test_types_and_documentation_are_reported() -> None:
    row = topic_row("cleanup.policy", {})
    assert row.type is OptionType.LIST
    assert row.documentation.startswith("What happens to old records")


def test_an_option_of_our_own_is_listed_where_it_is_set_or_asked_for() -> None:
    assert "mirror.source" not in [row.name for row in describe_topic({}, NOTHING_SET)]
    assert topic_row("mirror.source", {}).value == ""
    assert "a/b/c" in [row.value for row in describe_topic({"mirror.source": "a/b/c"}, NOTHING_SET)]
