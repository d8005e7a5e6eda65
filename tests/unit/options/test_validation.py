import pytest

from millstream.errors import InvalidConfig, UsageError
from millstream.options.broker import BROKER_OPTIONS
from millstream.options.topic import TOPIC_OPTIONS
from millstream.options.validation import (
    check_startup_values,
    find_option,
    validate_broker_values,
    validate_dynamic_broker_values,
    validate_topic_overrides,
)


def test_options_that_kafka_takes_are_taken() -> None:
    validate_topic_overrides({"retention.ms": "-1", "cleanup.policy": "compact,delete", "preallocate": "false", "segment.bytes": "1048576"})
    validate_broker_values({"num.partitions": "3", "log.retention.hours": "-1"})


def test_an_unknown_option_is_refused_with_the_nearest_one_that_exists() -> None:
    with pytest.raises(InvalidConfig, match=r"unknown topic option 'retenton\.ms'; did you mean .*retention\.ms"):
        validate_topic_overrides({"retenton.ms": "1"})


def test_an_option_unlike_any_other_is_refused_without_a_guess() -> None:
    with pytest.raises(InvalidConfig, match=r"unknown topic option 'xyzzy'$"):
        validate_topic_overrides({"xyzzy": "1"})


def test_a_broker_option_on_a_topic_names_the_topics_own() -> None:
    with pytest.raises(InvalidConfig, match=r"broker option, not one of a topic; did you mean retention\.ms\?"):
        validate_topic_overrides({"log.retention.hours": "1"})


def test_a_topic_option_on_a_broker_names_the_brokers_own() -> None:
    with pytest.raises(InvalidConfig, match=r"a topic option: set it on the topic; did you mean log\.segment\.bytes\?"):
        validate_broker_values({"segment.bytes": "2000000"})


@pytest.mark.parametrize(
    ("name", "advice"),
    [
        ("zookeeper.connect", "use --zookeeper"),
        ("port", "use listeners"),
        ("ssl.keystore.location", "not supported by Millstream"),
        ("create.topic.policy.class.name", "not supported by Millstream"),
    ],
)
def test_an_option_that_only_kafka_has_comes_with_advice(name: str, advice: str) -> None:
    with pytest.raises(InvalidConfig, match=f"is Kafka's: .*{advice}"):
        find_option(BROKER_OPTIONS, name)


def test_what_was_typed_at_start_is_refused_as_a_mistake_of_usage() -> None:
    with pytest.raises(UsageError, match=r"num\.partitions"):
        check_startup_values({"num.partitions": "0"})


def test_everything_that_is_wrong_at_start_is_reported_at_once() -> None:
    with pytest.raises(UsageError, match=r"use --zookeeper.*; .*num\.partitions.*; unknown broker option 'xyzzy'"):
        check_startup_values({"zookeeper.connect": "localhost:2181", "num.partitions": "0", "xyzzy": "1", "node.id": "3"})


def test_options_that_do_not_fit_together_are_refused_at_start() -> None:
    with pytest.raises(UsageError, match="is above"):
        check_startup_values({"log.cleaner.min.compaction.lag.ms": "6", "log.cleaner.max.compaction.lag.ms": "5"})


def test_the_compaction_lags_must_be_in_order() -> None:
    validate_topic_overrides({"min.compaction.lag.ms": "5", "max.compaction.lag.ms": "5"})
    with pytest.raises(InvalidConfig, match=r"min\.compaction\.lag\.ms=6 is above max\.compaction\.lag\.ms=5"):
        validate_topic_overrides({"min.compaction.lag.ms": "6", "max.compaction.lag.ms": "5"})


def test_an_option_read_at_start_cannot_be_changed_while_the_broker_runs() -> None:
    validate_dynamic_broker_values({"log.retention.ms": "1000"})
    with pytest.raises(InvalidConfig, match="cannot be changed while the broker runs"):
        validate_dynamic_broker_values({"num.partitions": "3"})


@pytest.mark.parametrize("name", [name for name, option in TOPIC_OPTIONS.items() if option.is_fixed])
def test_an_option_without_effect_can_only_be_set_to_what_it_is(name: str) -> None:
    validate_topic_overrides({name: TOPIC_OPTIONS[name].default or ""})
    with pytest.raises(InvalidConfig, match=r"not supported by Millstream|it takes"):
        validate_topic_overrides({name: "true" if TOPIC_OPTIONS[name].default == "false" else "7"})
