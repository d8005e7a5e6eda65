import pytest

from millstream.errors import InvalidConfig
from millstream.options.broker import BROKER_OPTIONS
from millstream.options.option import default_value, parse_value
from millstream.options.topic import TOPIC_OPTIONS
from millstream.options.validation import validate_broker_values, validate_dynamic_broker_values, validate_topic_overrides
from millstream.options.without_effect import WITHOUT_EFFECT


@pytest.mark.parametrize("option", WITHOUT_EFFECT, ids=lambda option: option.name)
def test_every_option_takes_its_own_default(option: object) -> None:
    known = BROKER_OPTIONS[option.name]  # type: ignore[attr-defined]
    if known.default is not None:
        assert parse_value(known, known.default) == default_value(known)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("transaction.state.log.replication.factor", "1"),
        ("transaction.state.log.min.isr", "1"),
        ("share.coordinator.state.topic.replication.factor", "1"),
        ("num.network.threads", "3"),
        ("socket.send.buffer.bytes", "-1"),
        ("replica.selector.class", "org.apache.kafka.common.replica.RackAwareReplicaSelector"),
        ("controller.quorum.voters", "1@localhost:9093"),
        ("process.roles", "controller,broker"),
        ("log.preallocate", "true"),
        ("log.local.retention.ms", "1000"),
    ],
)
def test_what_development_set_ups_carry_is_taken(name: str, value: str) -> None:
    validate_broker_values({name: value})


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("transaction.state.log.replication.factor", "one"),
        ("num.io.threads", "0"),
        ("transaction.state.log.min.isr", "0"),
        ("replica.fetch.wait.max.ms", "-1"),
        ("controller.quorum.voters", "1@a:9093,2@b:9093"),
        ("process.roles", "broker"),
        ("authorizer.class.name", "org.apache.kafka.metadata.authorizer.StandardAuthorizer"),
        ("metric.reporters", "io.confluent.metrics.reporter.ConfluentMetricsReporter"),
        ("remote.log.storage.system.enable", "true"),
        ("group.coordinator.rebalance.protocols", "classic,consumer,streams"),
        ("security.inter.broker.protocol", "SSL"),
    ],
)
def test_what_makes_no_sense_or_would_be_a_lie_is_refused(name: str, value: str) -> None:
    with pytest.raises(InvalidConfig, match=name):
        validate_broker_values({name: value})


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("preallocate", "true"),
        ("local.retention.ms", "1000"),
        ("local.retention.bytes", "-2"),
        ("leader.replication.throttled.replicas", "0:1,1:1"),
        ("follower.replication.throttled.replicas", "*"),
        ("remote.log.copy.disable", "true"),
        ("remote.storage.enable", "false"),
        ("unclean.leader.election.enable", "true"),
        ("compression.gzip.level", "9"),
        ("compression.lz4.level", "17"),
        ("compression.zstd.level", "-131072"),
    ],
)
def test_options_of_topics_that_set_ups_carry_are_taken(name: str, value: str) -> None:
    validate_topic_overrides({name: value})


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("remote.storage.enable", "true"),
        ("local.retention.ms", "-3"),
        ("leader.replication.throttled.replicas", "all"),
        ("compression.gzip.level", "0"),
        ("compression.gzip.level", "10"),
        ("compression.lz4.level", "18"),
        ("compression.zstd.level", "23"),
    ],
)
def test_options_of_topics_that_would_be_a_lie_are_refused(name: str, value: str) -> None:
    with pytest.raises(InvalidConfig, match=name):
        validate_topic_overrides({name: value})


def test_throttles_of_a_reassignment_are_set_and_cleared_while_the_broker_runs() -> None:
    validate_dynamic_broker_values({"leader.replication.throttled.rate": "1000", "follower.replication.throttled.rate": "1000"})


def test_default_of_a_topic_option_without_effect_has_none_either() -> None:
    for option in TOPIC_OPTIONS.values():
        assert {BROKER_OPTIONS[name].without_effect for name in option.synonyms} <= {option.without_effect}
